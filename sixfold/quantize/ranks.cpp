#include "sixfold/quantize/ranks.h"

#include <dlfcn.h>

#include <cstdlib>

namespace sixfold {
namespace {

// OpenMPI's C ABI, as far as it is used. The library is loaded under mpirun alone: who works in one process
// needs none, to build or to run.
struct OpenMpi {
  using Handle = void*;
  int (*init)(int*, char***) = nullptr;
  int (*initialized)(int*) = nullptr;
  int (*finalize)() = nullptr;
  int (*rank)(Handle, int*) = nullptr;
  int (*size)(Handle, int*) = nullptr;
  int (*broadcast)(void*, int, Handle, int, Handle) = nullptr;
  int (*abort)(Handle, int) = nullptr;
  Handle world = nullptr, byte = nullptr;
  bool found = false;

  static const OpenMpi& get() {
    static const OpenMpi mpi = load();
    return mpi;
  }

 private:
  static OpenMpi load() {
    OpenMpi out;
    void* library = nullptr;
    // Its components are libraries that look for its symbols in the whole process.
    for (const char* name : {"libmpi.so.40", "libmpi.so"})
      if (!library) library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!library) return out;
    out.found = true;
    const auto find = [&](auto& to, const char* name) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(::dlsym(library, name));
      out.found = out.found && to;
    };
    find(out.init, "MPI_Init");
    find(out.initialized, "MPI_Initialized");
    find(out.finalize, "MPI_Finalize");
    find(out.rank, "MPI_Comm_rank");
    find(out.size, "MPI_Comm_size");
    find(out.broadcast, "MPI_Bcast");
    find(out.abort, "MPI_Abort");
    find(out.world, "ompi_mpi_comm_world");  // the constants of mpi.h are the addresses of these
    find(out.byte, "ompi_mpi_byte");
    return out;
  }
};

// OpenMPI's mpirun says how many it started; so do others.
size_t started() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
    if (const char* text = std::getenv(name))
      return static_cast<size_t>(std::max(1L, std::strtol(text, nullptr, 10)));
  return 1;
}

}  // namespace

Result<Ranks> Ranks::get() {
  Ranks out;
  if (started() == 1) return out;
  const OpenMpi& mpi = OpenMpi::get();
  if (!mpi.found)
    return unsupported("mpirun started ", started(),
                       " processes, and OpenMPI's libmpi.so.40 is not found (Debian: libopenmpi3)");
  int initialized = 0, rank = 0, count = 1;
  mpi.initialized(&initialized);
  if (!initialized) {
    if (mpi.init(nullptr, nullptr) != 0)
      return fail(Code::Internal, "OpenMPI could not be started among ", started(), " processes");
    std::atexit([] { OpenMpi::get().finalize(); });
  }
  mpi.rank(mpi.world, &rank);
  mpi.size(mpi.world, &count);
  if (static_cast<size_t>(count) != started())
    return fail(Code::Internal, "mpirun started ", started(), " processes, and OpenMPI knows of ", count,
                ": is mpirun OpenMPI's?");
  out.rank_ = static_cast<size_t>(rank);
  out.count_ = static_cast<size_t>(count);
  return out;
}

std::vector<std::string> Ranks::gather(const std::string& mine) const {
  if (count_ == 1) return {mine};
  const OpenMpi& mpi = OpenMpi::get();
  std::vector<std::string> out(count_);
  constexpr uint64_t kPiece = uint64_t{1} << 30;  // MPI counts in int
  for (size_t r = 0; r < count_; ++r) {
    uint64_t size = r == rank_ ? mine.size() : 0;
    mpi.broadcast(&size, sizeof size, mpi.byte, static_cast<int>(r), mpi.world);
    if (r == rank_) out[r] = mine;
    out[r].resize(size);
    for (uint64_t at = 0; at < size; at += kPiece)
      mpi.broadcast(out[r].data() + at, static_cast<int>(std::min(kPiece, size - at)), mpi.byte,
                    static_cast<int>(r), mpi.world);
  }
  return out;
}

void Ranks::give_up() {
  if (started() == 1 || !OpenMpi::get().found) return;
  int initialized = 0;
  OpenMpi::get().initialized(&initialized);
  if (initialized) OpenMpi::get().abort(OpenMpi::get().world, 1);
}

}  // namespace sixfold
