#include "sixfold/pte/verify.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sixfold/pte/testing.h"

namespace sixfold::pte {
namespace {

std::optional<size_t> arity_of_add(std::string_view kernel) {
  if (kernel == "aten::add.out") return 5;
  return std::nullopt;
}

std::string refusal(const Program& program, const VerifyOptions& options = {.arity = arity_of_add}) {
  const Status status = verify(program, options);
  return status.ok() ? "" : status.error().message();
}

TEST(PteVerify, accepts_one_of_everything) { EXPECT_EQ(refusal(Sample().program), ""); }

struct Damage {
  const char* name;
  std::function<void(Program&)> apply;
  const char* message;  // the part that must be in it
};

Tensor& tensor(Program& p, size_t value) { return std::get<Tensor>(p.methods[0].values[value]); }
Instruction& instruction(Program& p, size_t i) { return p.methods[0].chains[0][i]; }

const Damage kDamages[] = {
    {"no_method", [](Program& p) { p.methods.clear(); }, "no method"},
    {"no_name", [](Program& p) { p.methods[1].name.clear(); }, "method 1 has no name"},
    {"same_name", [](Program& p) { p.methods[1].name = "forward"; }, "\"forward\" of one before"},
    {"same_key", [](Program& p) { p.named_data.push_back(p.named_data[0]); }, "\"some/name\" of one before"},
    {"no_key", [](Program& p) { p.named_data[0].key.clear(); }, "named data 0 has no key"},
    {"no_chain", [](Program& p) { p.methods[0].chains.clear(); }, "no chain"},
    {"rank", [](Program& p) { tensor(p, 3).sizes.assign(17, 1); }, "rank 17, the limit is 16"},
    {"dim_order_length", [](Program& p) { tensor(p, 3).dim_order = {0}; }, "2 sizes, but 1 entries"},
    {"dim_order_twice",
     [](Program& p) {
       tensor(p, 3).dim_order = {1, 1};
     },
     "[1, 1] is not a permutation of 0 to 1"},
    {"dim_order_range",
     [](Program& p) {
       tensor(p, 3).dim_order = {0, 200};
     },
     "[0, 200] is not a permutation"},
    {"negative_size",
     [](Program& p) {
       tensor(p, 3).sizes = {-1, 3};
     },
     "[-1, 3] of f32 are negative"},
    {"overflow",
     [](Program& p) {
       tensor(p, 3).sizes.assign(4, 2000000000);
       tensor(p, 3).dim_order = {0, 1, 2, 3};
     },
     "above 2^63 bytes"},
    {"unbounded", [](Program& p) { tensor(p, 3).dynamism = Dynamism::unbounded; }, "no upper bound"},
    {"constant_index", [](Program& p) { tensor(p, 0).data_index = 3; }, "is constant 3, the program has 2"},
    {"constant_size",
     [](Program& p) {
       tensor(p, 0).sizes = {3, 3};
     },
     "has 24 bytes up to the end of its segment"},
    {"constant_alignment",
     [](Program& p) {
       p.constants[1] = p.constants[1].subspan(2);
       tensor(p, 0).sizes = {1, 1};
     },
     "2 bytes off the alignment of 4"},
    {"constant_bools", [](Program& p) { tensor(p, 1).dtype = DType::boolean; },
     "byte 0 of a bool tensor is 9"},
    {"initial_index", [](Program& p) { tensor(p, 2).data_index = 2; },
     "is initial value 2, the program has 1"},
    {"initial_size", [](Program& p) { tensor(p, 2).sizes = {3}; }, "initial value 1 has 8 bytes"},
    {"buffer_id", [](Program& p) { tensor(p, 3).allocation->memory_id = 3; },
     "in buffer 3, the method has buffers 1 to 2"},
    {"buffer_zero", [](Program& p) { tensor(p, 3).allocation->memory_id = 0; }, "in buffer 0"},
    {"buffer_end", [](Program& p) { tensor(p, 3).allocation->offset = 108; },
     "24 bytes at 108 reach past the end of buffer 1, which has 128"},
    {"buffer_wrap", [](Program& p) { tensor(p, 3).allocation->offset = ~uint64_t{0} - 3; },
     "reach past the end"},
    {"buffer_alignment", [](Program& p) { tensor(p, 3).allocation->offset = 2; },
     "offset 2 is not a multiple of 4"},
    {"negative_buffer", [](Program& p) { p.methods[0].buffer_sizes[1] = -5; }, "buffer 1 has -5 bytes"},
    {"no_buffers", [](Program& p) { p.methods[0].buffer_sizes.clear(); }, "no buffer sizes"},
    {"reserved_buffer", [](Program& p) { p.methods[0].buffer_sizes[0] = 4; },
     "buffer 0 has 4 bytes, expected 0"},
    {"huge_buffers", [](Program& p) { p.methods[0].buffer_sizes[1] = INT64_MAX; },
     "the limit is 68719476736"},
    {"external_name", [](Program& p) { tensor(p, 16).name.clear(); }, "no name to find it by"},
    {"int_list_item", [](Program& p) { std::get<IntList>(p.methods[0].values[11]).items[1] = 17; },
     "value 17 does not exist, the method has 17"},
    {"int_list_far",
     [](Program& p) { std::get<IntList>(p.methods[0].values[11]).items[1] = int64_t{1} << 40; },
     "value 1099511627776 does not exist"},
    {"int_list_kind", [](Program& p) { std::get<IntList>(p.methods[0].values[11]).items[1] = 9; },
     "its item value 9 is a number"},
    {"tensor_list_kind", [](Program& p) { std::get<TensorList>(p.methods[0].values[14]).items[1] = 7; },
     "its item value 7 is an integer"},
    {"tensor_list_later", [](Program& p) { std::get<TensorList>(p.methods[0].values[14]).items[1] = 16; },
     "value 16 does not come before it"},
    {"tensor_list_itself", [](Program& p) { std::get<TensorList>(p.methods[0].values[14]).items[1] = 14; },
     "value 14 does not come before it"},
    {"tensor_list_none", [](Program& p) { std::get<TensorList>(p.methods[0].values[14]).items[1] = -1; },
     "value -1 does not exist"},
    {"optional_list_below", [](Program& p) { std::get<TensorList>(p.methods[0].values[15]).items[1] = -2; },
     "value -2 does not exist"},
    {"input", [](Program& p) { p.methods[0].inputs[0] = 99; },
     "value 99 does not exist, the method has 17 (while checking input 0)"},
    {"input_constant", [](Program& p) { p.methods[0].inputs[0] = 0; }, "input 0 (value 0) is a constant"},
    {"input_external", [](Program& p) { p.methods[0].inputs[0] = 16; }, "input 0 (value 16) is a constant"},
    {"input_list", [](Program& p) { p.methods[0].inputs[0] = 14; },
     "is a list of tensors, expected a tensor"},
    {"output", [](Program& p) { p.methods[0].outputs[1] = -1; },
     "value -1 does not exist, the method has 17 (while checking output 1)"},
    {"operator_name", [](Program& p) { p.methods[0].operators[1].name.assign(92, 'x'); },
     "operator 1 has 100 characters, the limit is 99"},
    {"operator_no_name", [](Program& p) { p.methods[0].operators[1].name.clear(); },
     "operator 1 has no name"},
    {"delegate_id", [](Program& p) { p.methods[0].delegates[0].id.clear(); }, "delegate 0 has no id"},
    {"kernel_operator", [](Program& p) { std::get<KernelCall>(instruction(p, 0)).operator_index = 2; },
     "operator 2, the method has 2"},
    {"kernel_arg", [](Program& p) { std::get<KernelCall>(instruction(p, 0)).args[2] = 17; },
     "value 17 does not exist, the method has 17 (while checking argument 2) (while checking instruction 0 "
     "of chain 0)"},
    {"kernel_arity", [](Program& p) { std::get<KernelCall>(instruction(p, 0)).args.pop_back(); },
     "\"aten::add.out\" has 4 arguments, expected 5"},
    {"kernel_no_args", [](Program& p) { std::get<KernelCall>(p.methods[0].chains[1][0]).args.clear(); },
     "has no arguments (while checking instruction 0 of chain 1)"},
    {"kernel_writes_constant", [](Program& p) { std::get<KernelCall>(instruction(p, 0)).args[4] = 0; },
     "value 0, is or may become a constant"},
    {"kernel_writes_list", [](Program& p) { std::get<KernelCall>(instruction(p, 0)).args[4] = 14; },
     "value 0, is or may become a constant"},
    {"kernel_writes_moved",
     [](Program& p) {
       std::get<Move>(instruction(p, 3)) = {0, 4};
     },
     "value 4, is or may become a constant"},
    {"kernel_writes_view", [](Program& p) { std::get<KernelCall>(p.methods[0].chains[1][0]).args[0] = 0; },
     "value 4, is or may become a constant"},
    {"delegate_index", [](Program& p) { std::get<DelegateCall>(instruction(p, 2)).delegate_index = 1; },
     "delegate 1, the method has 1"},
    {"delegate_arg", [](Program& p) { std::get<DelegateCall>(instruction(p, 2)).args[1] = -1; },
     "value -1 does not exist"},
    {"move_from", [](Program& p) { std::get<Move>(instruction(p, 3)).from = 70; }, "value 70 does not exist"},
    {"move_kind", [](Program& p) { std::get<Move>(instruction(p, 3)).from = 7; },
     "moves an integer (value 7) to a tensor (value 3)"},
    {"move_dtype", [](Program& p) { tensor(p, 4).dtype = DType::i64; },
     "moves i64 [2, 3] (value 4) to f32 [2, 3] (value 3)"},
    {"jump_condition", [](Program& p) { std::get<JumpFalse>(instruction(p, 1)).condition = 7; },
     "value 7, is an integer, expected a bool"},
    {"jump_tensor", [](Program& p) { std::get<JumpFalse>(instruction(p, 1)).condition = 3; },
     "value 3, is a tensor, expected a bool"},
    {"jump_far", [](Program& p) { std::get<JumpFalse>(instruction(p, 1)).destination = 6; },
     "jumps to instruction 6, the chain has 5"},
    {"free_kind", [](Program& p) { std::get<Free>(instruction(p, 4)).value = 7; },
     "value 7, which is an integer"},
};

class PteDamage : public testing::TestWithParam<Damage> {};

TEST_P(PteDamage, is_refused) {
  Sample sample;
  GetParam().apply(sample.program);
  const std::string message = refusal(sample.program);
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(All, PteDamage, testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PteVerify, jumps_to_the_end_are_fine) {
  Sample sample;
  std::get<JumpFalse>(instruction(sample.program, 1)).destination = 5;
  EXPECT_EQ(refusal(sample.program), "");
}

TEST(PteVerify, names_the_method_in_a_printable_way) {
  Sample sample;
  sample.program.methods[0].name = "a\n\"b";
  sample.program.methods[0].outputs = {50};
  EXPECT_NE(refusal(sample.program).find("checking method \"a\\x0a\\x22b\""), std::string::npos);
}

}  // namespace
}  // namespace sixfold::pte
