#include "sixfold/ops/binary/emulate_constant.h"

#include <cmath>
#include <cstring>

#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/fixed_rows.h"
#include "sixfold/emulator/elements.h"

namespace sixfold::emulator {
namespace {

struct Move {
  size_t bytes, from;
  void run(const Run& run) const { std::memcpy(run.outs[0], run.ins[from], bytes); }
};

struct Table {
  const uint8_t* table;
  int64_t count;
  size_t from;
  void run(const Run& run) const {
    run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      cpu::lookup_bytes(table, run.in<uint8_t>(from) + begin, run.out<uint8_t>() + begin, end - begin);
    });
  }
};

bool is_zero(const TensorDef& t) {
  const Codec codec = Codec::of(t);
  std::vector<double> values(static_cast<size_t>(t.count()));
  codec.read(t.data, 0, 1, values);
  return std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
}

// Entry i is for the bits i of an element of in(from). A product with a number above zero is a conversion,
// unless it would be one of 16 or more steps; all else is computed in floats, as the device has it.
Result<const uint8_t*> table_of(const OpView& op, size_t from, Prepare& prepare) {
  const TensorDef& constant = op.in(1 - from);
  const Codec x = Codec::of(op.in(from)), y = Codec::of(op.out());
  return prepare.pack_values<uint8_t>(256, [&](std::span<uint8_t> table) {
    double number = 0;
    Codec::of(constant).read(constant.data, 0, 1, {&number, 1});
    const auto c = static_cast<float>(number), scale = static_cast<float>(x.scale);
    const float factor = scale * (1.0f / static_cast<float>(y.scale)) * c;
    const bool converts = op.type == "ElementWiseMultiply" && factor > 0 && factor < 16;
    const Multiplier ratio = byte_multiplier(x.scale * number / y.scale);
    for (size_t i = 0; i < table.size(); ++i) {
      const auto bits = static_cast<uint8_t>(i);
      const int64_t stored = x.limits.min < 0 ? static_cast<int8_t>(bits) : bits;
      const auto steps = static_cast<float>(stored + x.offset);
      const float v = steps * scale;
      if (converts) {
        const int64_t q = ratio(stored + x.offset) - y.offset;
        table[i] = static_cast<uint8_t>(std::clamp(q, y.limits.min, y.limits.max));
        continue;
      }
      table[i] = op.type == "ElementWiseMultiply" ? y.encode_steps<uint8_t>(steps * factor)
                 : op.type == "ElementWiseAdd"    ? y.encode_entry(v + c)
                                                  : y.encode_entry(from == 0 ? v - c : c - v);
    }
  });
}

Result<const uint8_t*> gated_table(const TensorDef& in, const TensorDef& out, Prepare& prepare) {
  const Codec x = Codec::of(in), y = Codec::of(out);
  return prepare.pack_values<uint8_t>(256, [&](std::span<uint8_t> table) {
    for (size_t i = 0; i < table.size(); ++i) {
      const double v = x.decode(static_cast<uint8_t>(i));
      table[i] = y.encode_entry(static_cast<float>(v / (1 + std::exp(-v))));
    }
  });
}

// A product of 16 bits with one number in the device's tiles (widen.h): the other operand, converted as sums
// are.
struct Scaled {
  cpu::FixedRecode recode;
  int64_t count;
  size_t from;

  void run(const Run& run) const {
    run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      cpu::recode_row(recode, run.ins[from] + 2 * begin, run.outs[0] + 2 * begin, end - begin, begin);
    });
  }
};

}  // namespace

Result<std::optional<Step>> prepare_with_constant(const OpView& op, Prepare& prepare) {
  const TensorDef& y = op.out();
  if (const bool first = op.in(0).is_gate; (first || op.in(1).is_gate) && qnn::size_of(y.dtype) == 1) {
    const size_t from = first ? 1 : 0;
    SF_ASSIGN(const uint8_t* table, gated_table(op.in(from), y, prepare));
    return std::optional(prepare.step(Table{table, y.count(), from}));
  }
  if (y.is_factor) {
    Step step = prepare.step(Move{y.size_bytes(), 0});
    step.copies = true;
    return std::optional(step);
  }
  const bool adds = op.type == "ElementWiseAdd";
  if (!adds && op.type != "ElementWiseSubtract" && op.type != "ElementWiseMultiply")
    return std::optional<Step>();
  if (!is_narrow_fixed(y.dtype) || op.in(0).is_constant() == op.in(1).is_constant())
    return std::optional<Step>();
  const size_t from = op.in(0).is_constant() ? 1 : 0;
  const TensorDef &x = op.in(from), &constant = op.in(1 - from);
  if (x.dtype != y.dtype || constant.dtype != y.dtype || x.count() != y.count()) return std::optional<Step>();
  // The library drops a sum with zeros: whoever follows reads the operand, with its encoding, and only one
  // who reads the graph's output takes the operand's numbers for the sum's.
  if (adds && (x.quantization == y.quantization || y.kind == TensorKind::app_read)) {
    SF_ASSIGN(const uint8_t* zero,
              prepare.pack_values<uint8_t>(1, [&](std::span<uint8_t> flag) { flag[0] = is_zero(constant); }));
    if (*zero != 0) {
      Step step = prepare.step(Move{y.size_bytes(), from});
      step.copies = from == 0;
      return std::optional(step);
    }
  }
  if (op.type == "ElementWiseMultiply" && y.in_tiles) {
    SF_ASSIGN(const float* factor, prepare.pack_values<float>(1, [&](std::span<float> out) {
      out[0] = static_cast<float>(read_constant(constant)[0]);
    }));
    if (*factor > 0) {
      TensorDef scaled = x;
      scaled.quantization = ScaleOffset{x.encoding().scale * *factor, x.encoding().offset};
      const Recode recode = Recode::between(scaled, y, /*tiled=*/true);
      return std::optional(prepare.step(Scaled{recode.rows(x.dtype, y.dtype), y.count(), from}));
    }
  }
  if (qnn::size_of(y.dtype) != 1 || constant.count() != 1) return std::optional<Step>();
  SF_ASSIGN(const uint8_t* table, table_of(op, from, prepare));
  return std::optional(prepare.step(Table{table, y.count(), from}));
}

}  // namespace sixfold::emulator
