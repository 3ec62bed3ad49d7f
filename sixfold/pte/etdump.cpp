#include "sixfold/pte/etdump.h"

#include <span>

#include "sixfold/pte/etdump_generated.h"
#include "sixfold/pte/scalar_type.h"

namespace sixfold::pte {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
namespace wire = etdump_wire;

Offset<flatbuffers::String> text(FlatBufferBuilder& builder, const std::string& text) {
  return text.empty() ? Offset<flatbuffers::String>() : builder.CreateString(text);
}

Offset<wire::Tensor> write_tensor(FlatBufferBuilder& builder, const LoggedTensor& tensor) {
  const auto sizes = builder.CreateVector(tensor.sizes);
  const auto strides = builder.CreateVector(tensor.strides);
  return wire::CreateTensor(builder, scalar_type_of(tensor.dtype), sizes, strides, tensor.offset);
}

Offset<wire::Value> write_value(FlatBufferBuilder& builder, const DebugEvent& event) {
  Offset<wire::Tensor> tensor;
  Offset<wire::TensorList> list;
  Offset<wire::Int> integer;
  Offset<wire::Double> real;
  Offset<wire::Bool> boolean;
  wire::Kind kind = wire::Kind::none;
  if (const auto* one = std::get_if<LoggedTensor>(&event.value)) {
    kind = wire::Kind::tensor;
    tensor = write_tensor(builder, *one);
  } else if (const auto* many = std::get_if<std::vector<LoggedTensor>>(&event.value)) {
    kind = wire::Kind::tensor_list;
    std::vector<Offset<wire::Tensor>> items;
    for (const LoggedTensor& item : *many) items.push_back(write_tensor(builder, item));
    list = wire::CreateTensorList(builder, builder.CreateVector(items));
  } else if (const auto* i = std::get_if<int64_t>(&event.value)) {
    kind = wire::Kind::integer;
    integer = wire::CreateInt(builder, *i);
  } else if (const auto* d = std::get_if<double>(&event.value)) {
    kind = wire::Kind::float64;
    real = wire::CreateDouble(builder, *d);
  } else {
    kind = wire::Kind::boolean;
    boolean = wire::CreateBool(builder, std::get<bool>(event.value));
  }
  const auto output = event.is_output ? wire::CreateBool(builder, true) : 0;
  return wire::CreateValue(builder, kind, tensor, list, integer, /*float32=*/0, real, boolean, output);
}

struct EventWriter {
  FlatBufferBuilder& builder;

  Offset<wire::Event> operator()(const ProfileEvent& event) {
    // Events inside a delegate have their name there.
    const auto name = text(builder, event.name);
    const auto delegate_name = text(builder, event.delegate_name);
    Offset<flatbuffers::Vector<uint8_t>> metadata;
    if (!event.delegate_metadata.empty())
      metadata = builder.CreateVector(reinterpret_cast<const uint8_t*>(event.delegate_metadata.data()),
                                      event.delegate_metadata.size());
    return wire::CreateEvent(
        builder, wire::CreateProfileEvent(builder, name, event.chain, event.instruction, event.delegate_id,
                                          delegate_name, metadata, event.start_ns, event.end_ns));
  }
  Offset<wire::Event> operator()(const DebugEvent& event) {
    const auto name = text(builder, event.name);
    const auto delegate_name = text(builder, event.delegate_name);
    const auto value = write_value(builder, event);
    // The chain has 64 bits here, and -1 keeps all of them.
    const auto chain = static_cast<uint64_t>(int64_t{event.chain});
    return wire::CreateEvent(builder, 0, 0,
                             wire::CreateDebugEvent(builder, chain, event.instruction, value,
                                                    event.delegate_id, delegate_name, name));
  }
};

}  // namespace

std::vector<std::byte> write_etdump(const EtDump& dump) {
  FlatBufferBuilder builder;
  std::vector<Offset<wire::Run>> runs;
  for (const EtDump::Run& run : dump.runs) {
    std::vector<Offset<wire::Event>> events;
    for (const auto& event : run.events) events.push_back(std::visit(EventWriter{builder}, event));
    const auto name = builder.CreateString(run.name);
    const auto allocators = builder.CreateVector(std::vector<Offset<wire::Allocator>>());
    runs.push_back(
        wire::CreateRun(builder, name, run.bundled_input, allocators, builder.CreateVector(events)));
  }
  wire::FinishSizePrefixedDumpBuffer(builder,
                                     wire::CreateDump(builder, /*version=*/0, builder.CreateVector(runs)));
  const auto flat = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {flat.begin(), flat.end()};
}

}  // namespace sixfold::pte
