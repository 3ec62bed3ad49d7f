#include "sixfold/emulator/op_view.h"

#include <algorithm>
#include <cstring>

namespace sixfold::emulator {
namespace {

const TensorDef kAbsent{.kind = TensorKind::null};

const std::vector<ScaleOffset>* channels_of(const qnn::Quantization& q) {
  if (const auto* axis = std::get_if<qnn::AxisScaleOffset>(&q)) return &axis->channels;
  if (const auto* axis = std::get_if<qnn::BitWidthAxisScaleOffset>(&q)) return &axis->channels;
  if (const auto* block = std::get_if<qnn::BlockExpansion>(&q)) return &block->channels;
  return nullptr;
}

template <typename T>
T scalar(const ParamDef* param, T otherwise) {
  if (!param || param->is_tensor) return otherwise;
  T value;
  std::memcpy(&value, &param->bits, sizeof value);
  return value;
}

}  // namespace

ScaleOffset TensorDef::encoding() const {
  if (const auto* q = std::get_if<ScaleOffset>(&quantization)) return *q;
  if (const auto* q = std::get_if<qnn::BitWidthScaleOffset>(&quantization)) return q->all;
  return {1, 0};
}

bool TensorDef::is_per_channel() const { return channels_of(quantization) != nullptr; }

ScaleOffset TensorDef::channel_encoding(size_t channel) const {
  const auto* channels = channels_of(quantization);
  if (!channels || channels->empty()) return encoding();
  return (*channels)[channels->size() == 1 ? 0 : channel];
}

bool TensorDef::has_one_offset() const {
  const auto* channels = channels_of(quantization);
  return !channels || std::all_of(channels->begin(), channels->end(),
                                  [&](const ScaleOffset& c) { return c.offset == channels->front().offset; });
}

uint32_t TensorDef::bits() const {
  if (const auto* q = std::get_if<qnn::BitWidthScaleOffset>(&quantization)) return q->bits;
  if (const auto* q = std::get_if<qnn::BitWidthAxisScaleOffset>(&quantization)) return q->bits;
  if (std::holds_alternative<qnn::BlockExpansion>(quantization)) return 4;
  return static_cast<uint32_t>(qnn::size_of(dtype) * 8);
}

const TensorDef& OpView::in(size_t i) const { return i < inputs.size() ? *inputs[i] : kAbsent; }
const TensorDef& OpView::out(size_t i) const { return i < outputs.size() ? *outputs[i] : kAbsent; }

size_t OpView::input_count() const {
  size_t count = inputs.size();
  while (count > 0 && !inputs[count - 1]->is_present()) --count;
  return count;
}

const ParamDef* OpView::find(std::string_view name) const {
  for (const ParamDef& p : params)
    if (p.name == name) return &p;
  return nullptr;
}
uint32_t OpView::u32(std::string_view name, uint32_t otherwise) const {
  return scalar<uint32_t>(find(name), otherwise);
}
int32_t OpView::i32(std::string_view name, int32_t otherwise) const {
  return scalar<int32_t>(find(name), otherwise);
}
float OpView::f32(std::string_view name, float otherwise) const {
  return scalar<float>(find(name), otherwise);
}
bool OpView::boolean(std::string_view name, bool otherwise) const {
  return scalar<uint8_t>(find(name), otherwise ? 1 : 0) != 0;
}
std::span<const uint32_t> OpView::words(std::string_view name) const {
  const ParamDef* p = find(name);
  if (!p || !p->is_tensor || qnn::size_of(p->tensor.dtype) != 4) return {};
  return {reinterpret_cast<const uint32_t*>(p->bytes.data()), p->bytes.size() / 4};
}
std::span<const int32_t> OpView::signed_words(std::string_view name) const {
  const std::span<const uint32_t> w = words(name);
  return {reinterpret_cast<const int32_t*>(w.data()), w.size()};
}

}  // namespace sixfold::emulator
