// The provider as a hostile or careless client sees it.
#include "sixfold/emulator/api.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include "sixfold/emulator/emulator.h"

namespace sixfold::emulator {
namespace {

using abi::ErrorCode;
using abi::Handle;

const abi::Functions& f() { return library().functions(); }

// What a half that leaves a graph is as a float (half_test.cpp).
float left(float half) { return std::nextafter(half, half < 0 ? -1e9f : 1e9f); }

// A graph y = a + b over n floats, made with the C API alone.
struct Client {
  Handle backend = nullptr, device = nullptr, context = nullptr, graph = nullptr;
  uint32_t dims[1] = {0};
  abi::Tensor a{}, b{}, y{};

  explicit Client(uint32_t n, const char* name = "g") {
    dims[0] = n;
    const abi::HtpDeviceConfig custom{0, 57, 57, 0};
    const abi::Config config{.option = 0, .custom = &custom};
    const abi::Config* const configs[] = {&config, nullptr};
    EXPECT_EQ(f().backend_create(nullptr, nullptr, &backend), 0u);
    EXPECT_EQ(f().device_create(nullptr, configs, &device), 0u);
    EXPECT_EQ(f().context_create(backend, device, nullptr, &context), 0u);
    EXPECT_EQ(f().graph_create(context, name, nullptr, &graph), 0u);
    a = tensor("a", TensorKind::app_write);
    b = tensor("b", TensorKind::app_write);
    y = tensor("y", TensorKind::app_read);
  }
  ~Client() {
    f().context_free(context, nullptr);
    f().device_free(device);
    f().backend_free(backend);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  abi::Tensor tensor(const char* name, TensorKind kind) const {
    abi::Tensor t{};
    t.version = 1;
    t.v1.name = name;
    t.v1.kind = kind;
    t.v1.dtype = DataType::f32;
    t.v1.quantize.definition = abi::kUndefined;
    t.v1.quantize.encoding = abi::Encoding::undefined;
    t.v1.rank = 1;
    t.v1.dims = dims;
    return t;
  }
  abi::Op op(std::span<const abi::Tensor> inputs) const {
    return {.version = 1,
            .name = "add",
            .package = abi::kPackage,
            .type = "ElementWiseAdd",
            .input_count = static_cast<uint32_t>(inputs.size()),
            .inputs = inputs.data(),
            .output_count = 1,
            .outputs = &y};
  }
  ErrorCode build() {
    for (abi::Tensor* t : {&a, &b, &y})
      if (const ErrorCode e = f().tensor_create_graph(graph, t); e != 0) return e;
    const abi::Tensor in[] = {a, b};
    if (const ErrorCode e = f().graph_add_node(graph, op(in)); e != 0) return e;
    return f().graph_finalize(graph, nullptr, nullptr);
  }
  ErrorCode run(std::vector<float>& p, std::vector<float>& q, std::vector<float>& r,
                Handle profile = nullptr) {
    abi::Tensor in[] = {a, b}, out[] = {y};
    const auto give = [](abi::Tensor& t, std::vector<float>& v) {
      t.v1.buffer = {v.data(), static_cast<uint32_t>(v.size() * sizeof(float))};
    };
    give(in[0], p);
    give(in[1], q);
    give(out[0], r);
    return f().graph_execute(graph, in, 2, out, 1, profile, nullptr);
  }
};

TEST(EmulatorApi, freed_and_forged_handles_are_errors) {
  Handle stale = nullptr;
  {
    Client c(4);
    ASSERT_EQ(c.build(), 0u);
    stale = c.graph;
  }
  std::vector<float> v(4);
  abi::Tensor t{};
  for (Handle h : {stale, static_cast<Handle>(nullptr), reinterpret_cast<Handle>(1),
                   reinterpret_cast<Handle>(UINTPTR_MAX), static_cast<Handle>(v.data())}) {
    EXPECT_EQ(f().graph_execute(h, nullptr, 0, nullptr, 0, nullptr, nullptr), api::kGraphHandle);
    EXPECT_EQ(f().graph_finalize(h, nullptr, nullptr), api::kGraphHandle);
    EXPECT_EQ(f().tensor_create_graph(h, &t), api::kTensorHandle);
    EXPECT_EQ(f().context_free(h, nullptr), api::kContextHandle);
    EXPECT_EQ(f().backend_free(h), api::kBackendHandle);
    EXPECT_EQ(f().device_free(h), api::kDeviceHandle);
    EXPECT_EQ(f().log_free(h), api::kLogHandle);
    EXPECT_EQ(f().profile_free(h), api::kProfileHandle);
  }
}

// A file of the client's in memory.
struct SharedFile {
  int fd = -1;
  float* data = nullptr;
  size_t bytes = 0;

  explicit SharedFile(size_t size) : fd(::memfd_create("shared", 0)), bytes(size) {
    EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
    data = static_cast<float*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  }
  ~SharedFile() {
    ::munmap(data, bytes);
    ::close(fd);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
};

TEST(EmulatorApi, graphs_read_and_write_memory_that_is_registered) {
  Client c(4);
  ASSERT_EQ(c.build(), 0u);
  // The inputs are parts of one buffer, as ExecuTorch's shared memory is; the output is a buffer of its own.
  SharedFile inputs(16384), output(4096);
  constexpr uint64_t kAt = 5000;  // in the second page
  std::copy_n(std::array{1.f, 2.f, 3.f, 4.f}.data(), 4, inputs.data);
  std::copy_n(std::array{10.f, 20.f, 30.f, 40.f}.data(), 4, inputs.data + kAt / sizeof(float));
  const abi::HtpMemory parts[] = {{abi::kHtpSharedBuffer, 16384, inputs.fd, 0},
                                  {abi::kHtpSharedBuffer, 16384, inputs.fd, kAt}};
  abi::MemoryDescriptor d[3] = {};
  for (abi::MemoryDescriptor& one : d) {
    one.rank = 1;
    one.dims = c.dims;
    one.dtype = DataType::f32;
    one.type = abi::MemoryType::custom;
  }
  d[0].custom = &parts[0];
  d[1].custom = &parts[1];
  d[2].type = abi::MemoryType::ion;
  d[2].fd = output.fd;
  Handle memory[3] = {};
  ASSERT_EQ(f().memory_register(c.context, d, 3, memory), 0u);

  abi::Tensor in[] = {c.a, c.b}, out[] = {c.y};
  for (abi::Tensor* t : {&in[0], &in[1], &out[0]}) t->v1.memory_type = abi::kMemory;
  in[0].v1.memory = memory[0];
  in[1].v1.memory = memory[1];
  out[0].v1.memory = memory[2];
  ASSERT_EQ(f().graph_execute(c.graph, in, 2, out, 1, nullptr, nullptr), 0u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(output.data[i], left(static_cast<float>(11 * (i + 1))));

  // Memory of another context, and memory that was given back, is none.
  Client other(4);
  ASSERT_EQ(other.build(), 0u);
  abi::Tensor theirs[] = {other.a, other.b}, sum[] = {other.y};
  theirs[0].v1.memory_type = theirs[1].v1.memory_type = sum[0].v1.memory_type = abi::kMemory;
  theirs[0].v1.memory = theirs[1].v1.memory = sum[0].v1.memory = memory[0];
  EXPECT_EQ(f().graph_execute(other.graph, theirs, 2, sum, 1, nullptr, nullptr), api::kGraphArgument);
  EXPECT_EQ(f().memory_deregister(memory, 3), 0u);
  EXPECT_EQ(f().memory_deregister(memory, 1), api::kMemoryHandle);
  EXPECT_EQ(f().graph_execute(c.graph, in, 2, out, 1, nullptr, nullptr), api::kGraphArgument);
}

TEST(EmulatorApi, memory_that_is_not_there_is_not_registered) {
  Client c(4);
  SharedFile file(4096);
  static const uint32_t too_many[] = {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, page[] = {1025};
  const auto refused = [&](ErrorCode code, auto change) {
    abi::HtpMemory part{abi::kHtpSharedBuffer, 4096, file.fd, 0};
    abi::MemoryDescriptor d{};
    d.rank = 1;
    d.dims = c.dims;
    d.dtype = DataType::f32;
    d.type = abi::MemoryType::ion;
    d.fd = file.fd;
    change(d, part);
    if (d.type == abi::MemoryType::custom && !d.custom) d.custom = &part;
    Handle memory = nullptr;
    EXPECT_EQ(f().memory_register(c.context, &d, 1, &memory), code);
    EXPECT_EQ(memory, nullptr);
  };
  using D = abi::MemoryDescriptor;
  using H = abi::HtpMemory;
  const auto custom = [](D& d) {
    d.type = abi::MemoryType::custom;
    d.room[0] = 0;
  };
  refused(api::kMemoryShape, [&](D& d, H&) { d.dims = nullptr; });
  refused(api::kMemoryShape, [&](D& d, H&) { d.rank = 1000; });
  refused(api::kMemoryShape, [&](D& d, H&) { d.rank = 3, d.dims = too_many; });
  refused(api::kMemoryShape, [&](D& d, H&) { d.dtype = static_cast<DataType>(0x9999); });
  refused(api::kMemoryShape, [&](D& d, H&) { d.dims = page; });  // beyond the file
  refused(api::kMemoryMapping, [&](D& d, H&) { d.fd = -1; });
  refused(api::kMemoryMapping, [&](D& d, H&) { d.fd = 1 << 20; });
  refused(api::kMemoryType, [&](D& d, H&) { d.type = static_cast<abi::MemoryType>(9); });
  refused(api::kMemoryType, [&](D& d, H& h) { custom(d), h.type = 2; });
  refused(api::kMemoryShape, [&](D& d, H& h) { custom(d), h.offset = 4090; });
  refused(api::kMemoryShape, [&](D& d, H& h) { custom(d), h.offset = UINT64_MAX - 3; });
  refused(api::kMemoryShape, [&](D& d, H& h) { custom(d), h.size_bytes = 1 << 20, h.offset = 8192; });
  EXPECT_EQ(f().memory_register(c.context, nullptr, 1, nullptr), api::kMemoryArgument);
  Handle memory = nullptr;
  const D d{};
  EXPECT_EQ(f().memory_register(nullptr, &d, 1, &memory), api::kContextHandle);
  EXPECT_EQ(f().memory_deregister(nullptr, 1), api::kMemoryArgument);
}

TEST(EmulatorApi, a_backend_that_is_freed_takes_its_graphs_along) {
  Client c(4);
  ASSERT_EQ(c.build(), 0u);
  std::vector<float> p(4), q(4), r(4);
  EXPECT_EQ(c.run(p, q, r), 0u);
  EXPECT_EQ(f().backend_free(c.backend), 0u);
  EXPECT_EQ(c.run(p, q, r), api::kGraphHandle);
}

TEST(EmulatorApi, wrong_structs_are_refused) {
  Client c(4);
  const auto refuse = [&](auto change) {
    abi::Tensor t = c.tensor("t", TensorKind::app_write);
    change(t);
    EXPECT_EQ(f().tensor_create_graph(c.graph, &t), api::kTensorParameter);
  };
  refuse([](abi::Tensor& t) { t.version = 9; });
  refuse([](abi::Tensor& t) { t.v1.dims = nullptr; });
  refuse([](abi::Tensor& t) { t.v1.rank = 1000; });
  refuse([](abi::Tensor& t) { t.v1.dtype = static_cast<DataType>(0x9999); });
  refuse([](abi::Tensor& t) { t.v1.kind = static_cast<TensorKind>(77); });
  refuse([](abi::Tensor& t) { t.v1.kind = TensorKind::constant; });  // no bytes
  static const uint32_t huge[] = {0xFFFFFFFF, 0xFFFFFFFF, 3}, zero[] = {0};
  refuse([](abi::Tensor& t) {
    t.v1.rank = 3;
    t.v1.dims = huge;
  });
  refuse([](abi::Tensor& t) { t.v1.dims = zero; });
  refuse([](abi::Tensor& t) {
    t.v1.quantize.definition = abi::kDefined;
    t.v1.quantize.encoding = abi::Encoding::axis_scale_offset;
    t.v1.quantize.axis = {0, 4, nullptr};
  });
  refuse([](abi::Tensor& t) {
    t.v1.quantize.definition = abi::kDefined;
    t.v1.quantize.encoding = abi::Encoding::scale_offset;
    t.v1.quantize.all = {-1.0f, 0};
  });
  refuse([](abi::Tensor& t) {
    t.v1.quantize.definition = abi::kDefined;
    t.v1.quantize.encoding = static_cast<abi::Encoding>(55);
  });
  EXPECT_EQ(f().tensor_create_graph(c.graph, nullptr), api::kTensorParameter);

  for (abi::Tensor* t : {&c.a, &c.b, &c.y}) ASSERT_EQ(f().tensor_create_graph(c.graph, t), 0u);
  abi::Tensor again = c.tensor("a", TensorKind::app_write);
  EXPECT_EQ(f().tensor_create_graph(c.graph, &again), api::kTensorExists);
  const abi::Tensor in[] = {c.a, c.b};
  const auto refuse_op = [&](auto change) {
    abi::Op op = c.op(in);
    change(op);
    EXPECT_NE(f().graph_add_node(c.graph, op), 0u);
    EXPECT_NE(f().backend_validate_op(c.backend, op), 0u);
  };
  refuse_op([](abi::Op& op) { op.version = 2; });
  refuse_op([](abi::Op& op) { op.name = nullptr; });
  refuse_op([](abi::Op& op) { op.package = "mine"; });
  refuse_op([](abi::Op& op) { op.type = "NoSuchOp"; });
  refuse_op([](abi::Op& op) { op.inputs = nullptr; });
  refuse_op([](abi::Op& op) { op.input_count = 0xFFFFFFFF; });
  refuse_op([](abi::Op& op) { op.param_count = 3; });
  refuse_op([](abi::Op& op) { op.output_count = 0; });
  abi::Tensor stranger = c.a;
  stranger.v1.id = 12345;
  const abi::Tensor strange[] = {stranger, c.b};
  EXPECT_EQ(f().graph_add_node(c.graph, c.op(strange)), api::kGraphTensor);
  // Nothing of that was taken: the graph is as it was, and lacks a writer of y.
  EXPECT_EQ(f().graph_finalize(c.graph, nullptr, nullptr), api::kGraphFinalize);
}

TEST(EmulatorApi, short_and_missing_buffers_are_refused) {
  Client c(8);
  ASSERT_EQ(c.build(), 0u);
  std::vector<float> p(8, 1.5f), q(8, 2), r(8), few(7);
  EXPECT_EQ(c.run(p, few, r), api::kGraphArgument);
  EXPECT_EQ(c.run(p, q, few), api::kGraphArgument);
  EXPECT_EQ(f().graph_execute(c.graph, &c.a, 1, &c.y, 1, nullptr, nullptr), api::kGraphArgument);
  EXPECT_EQ(f().graph_execute(c.graph, nullptr, 2, &c.y, 1, nullptr, nullptr), api::kGraphArgument);
  EXPECT_EQ(c.run(p, q, r), 0u);
  EXPECT_EQ(r, std::vector<float>(8, left(3.5f)));
}

TEST(EmulatorApi, batches_run_one_after_the_other) {
  Client c(4);
  ASSERT_EQ(c.build(), 0u);
  std::vector<float> p = {1, 2, 3, 4, 5, 6, 7, 8}, q(8, 1), r(8);
  const uint32_t twice[] = {8};
  for (abi::Tensor* t : {&c.a, &c.b, &c.y}) t->v1.dims = twice;
  ASSERT_EQ(c.run(p, q, r), 0u);
  EXPECT_EQ(r, (std::vector<float>{left(2), left(3), left(4), left(5), left(6), left(7), left(8), left(9)}));
}

TEST(EmulatorApi, profiles_tell_each_op) {
  Client c(1000);
  ASSERT_EQ(c.build(), 0u);
  Handle profile = nullptr;
  ASSERT_EQ(f().profile_create(c.backend, 2, &profile), 0u);
  std::vector<float> p(1000), q(1000), r(1000);
  ASSERT_EQ(c.run(p, q, r, profile), 0u);
  const uint64_t* ids = nullptr;
  uint32_t count = 0;
  ASSERT_EQ(f().profile_events(profile, &ids, &count), 0u);
  bool found = false;
  for (uint32_t i = 0; i < count; ++i) {
    abi::ProfileEvent e{};
    ASSERT_EQ(f().profile_event_data(ids[i], &e), 0u);
    const uint64_t* parts = nullptr;
    uint32_t parts_count = 0;
    ASSERT_EQ(f().profile_sub_events(ids[i], &parts, &parts_count), 0u);
    if (e.type == 3003) {
      ASSERT_EQ(parts_count, 1u);
      abi::ProfileEvent op{};
      ASSERT_EQ(f().profile_event_data(parts[0], &op), 0u);
      found = op.type == 404 && std::string_view(op.name).starts_with("add:OpId_");
    }
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(f().profile_free(profile), 0u);
  abi::ProfileEvent e{};
  EXPECT_EQ(f().profile_event_data(ids == nullptr ? 0 : 0x123456789, &e), api::kProfileHandle);
}

size_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<size_t>(::getpagesize()) / 1024;
}

TEST(EmulatorApi, two_thousand_cycles_do_not_grow) {
  const auto cycle = [] {
    Client c(64);
    ASSERT_EQ(c.build(), 0u);
    std::vector<float> p(64, 1), q(64, 2), r(64);
    ASSERT_EQ(c.run(p, q, r), 0u);
    ASSERT_EQ(r[63], left(3));
  };
  for (int i = 0; i < 200; ++i) cycle();
  const size_t before = resident_kib(), graphs = objects().graphs.size(),
               contexts = objects().contexts.size();
  for (int i = 0; i < 2000; ++i) cycle();
  EXPECT_EQ(objects().graphs.size(), graphs);
  EXPECT_EQ(objects().contexts.size(), contexts);
#ifndef SIXFOLD_SANITIZED  // whose allocators keep what is freed
  EXPECT_LT(resident_kib(), before + 1024);
#else
  (void)before;
#endif
}

TEST(EmulatorApi, eight_threads_run_graphs_at_once) {
  std::vector<std::thread> threads;
  for (uint32_t n = 0; n < 8; ++n)
    threads.emplace_back([n] {
      Client c(100 * (n + 1));
      ASSERT_EQ(c.build(), 0u);
      for (int i = 0; i < 50; ++i) {
        std::vector<float> p(c.dims[0], static_cast<float>(n)), q(c.dims[0], static_cast<float>(i)),
            r(c.dims[0]);
        ASSERT_EQ(c.run(p, q, r), 0u);
        ASSERT_NEAR(r.back(), static_cast<float>(n) + static_cast<float>(i), 1e-5);
      }
    });
  // And one graph by several.
  Client shared(1000);
  ASSERT_EQ(shared.build(), 0u);
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&shared, n] {
      for (int i = 0; i < 50; ++i) {
        std::vector<float> p(1000, static_cast<float>(n)), q(1000, static_cast<float>(i)), r(1000);
        ASSERT_EQ(shared.run(p, q, r), 0u);
        ASSERT_NEAR(r.back(), static_cast<float>(n) + static_cast<float>(i), 1e-5);
      }
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace sixfold::emulator
