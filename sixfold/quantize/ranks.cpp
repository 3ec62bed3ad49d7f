#include "sixfold/quantize/ranks.h"

#include <cstdlib>

#if defined(SIXFOLD_MPI)
#define OMPI_SKIP_MPICXX 1  // its C++ bindings are not wanted
#include <mpi.h>
#endif

namespace sixfold {
namespace {

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
#if defined(SIXFOLD_MPI)
  int initialized = 0, rank = 0, count = 1;
  MPI_Initialized(&initialized);
  if (!initialized) {
    if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS)
      return fail(Code::Internal, "OpenMPI could not be started among ", started(), " processes");
    std::atexit([] { MPI_Finalize(); });
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  out.rank_ = static_cast<size_t>(rank);
  out.count_ = static_cast<size_t>(count);
  return out;
#else
  return unsupported("mpirun started ", started(),
                     " processes, and this program was built without OpenMPI (libopenmpi-dev)");
#endif
}

std::vector<std::string> Ranks::gather(const std::string& mine) const {
  if (count_ == 1) return {mine};
  std::vector<std::string> out(count_);
#if defined(SIXFOLD_MPI)
  constexpr uint64_t kPiece = uint64_t{1} << 30;  // MPI counts in int
  for (size_t r = 0; r < count_; ++r) {
    uint64_t size = r == rank_ ? mine.size() : 0;
    MPI_Bcast(&size, sizeof size, MPI_BYTE, static_cast<int>(r), MPI_COMM_WORLD);
    if (r == rank_) out[r] = mine;
    out[r].resize(size);
    for (uint64_t at = 0; at < size; at += kPiece)
      MPI_Bcast(out[r].data() + at, static_cast<int>(std::min(kPiece, size - at)), MPI_BYTE,
                static_cast<int>(r), MPI_COMM_WORLD);
  }
#endif
  return out;
}

void Ranks::give_up() {
#if defined(SIXFOLD_MPI)
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized) MPI_Abort(MPI_COMM_WORLD, 1);
#endif
}

}  // namespace sixfold
