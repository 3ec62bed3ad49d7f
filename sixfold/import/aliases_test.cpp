#include "sixfold/import/aliases.h"

#include <gtest/gtest.h>

namespace sixfold {
namespace {

class AddressStorage : public testing::Test {
 protected:
  Aliases::Place input(const Dims& shape, const Dims& strides, int64_t offset = 0) {
    const Type type{DType::f32, shape};
    return aliases_.add(graph_.add_input("x", type), {type, strides, offset});
  }
  // What as_strided(place, size, stride, storage_offset) becomes.
  Status address(Aliases::Place place, Attr offset) {
    auto value = aliases_.read(place, 0);
    if (!value.ok()) return value.take_error();
    arguments_ = {{"self", *value}, {"storage_offset", std::move(offset)}};
    places_ = {{"self", {place}}};
    return aliases_.address_storage(arguments_, places_, 0);
  }
  const Node& made() const { return *graph_.producer(arguments_[0].second.tensors[0]); }
  Dim offset() const { return std::get<Dim>(arguments_[1].second.attr); }

  Graph graph_;
  Aliases aliases_{graph_, /*tracking=*/true};
  NamedArguments arguments_;
  Aliases::ArgumentPlaces places_;
};

TEST_F(AddressStorage, IsTheElementsInTheirOrderInMemory) {
  ASSERT_TRUE(address(input({2, 3}, {1, 2}), Attr(Dim(1))).ok());
  EXPECT_EQ(made().target, "aten.reshape.default");
  const Node& order = *graph_.producer(made().inputs[0]);
  EXPECT_EQ(order.target, "aten.permute.default");
  EXPECT_EQ(order.attrs.dims("dims"), (Dims{1, 0}));
  EXPECT_EQ(offset(), Dim(1));
}

TEST_F(AddressStorage, OfAViewIsThatOfTheTensorBehindIt) {
  const Aliases::Place x = input({4}, {1});
  const Type part{DType::f32, {2}};
  NamedArguments slice{{"self", *aliases_.read(x, 0)}, {"start", Attr(Dim(2))}};
  const ValueId value = *aliases_.emit("aten.slice.Tensor", slice, part, 0);
  const auto places = aliases_.add_results(find_schema("aten.slice.Tensor"), graph_.value(value).producer,
                                           {{"self", {x}}}, {{part, {1}, 2}});
  ASSERT_TRUE(places.ok());
  ASSERT_TRUE(address(places->at(0), Attr()).ok());
  EXPECT_EQ(arguments_[0].second.tensors[0], *aliases_.read(x, 0));
  EXPECT_EQ(offset(), Dim(2));  // the view's own
}

TEST_F(AddressStorage, IsRefusedWhereTheTensorHasGaps) {
  const Status status = address(input({2, 2}, {4, 1}), Attr(Dim(0)));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::Unsupported);
}

}  // namespace
}  // namespace sixfold
