// What the canonicalization rules of products share.
#pragma once

#include "sixfold/ops/aten.h"

namespace sixfold::aten {

// a: [.., M, K] times b: [.., K, N], ranks at least 2. Becomes `linear` when b is a transposed [N, K] or a
// constant matrix: a fully connected layer, however the model spells it.
ValueId product(Call& call, ValueId a, ValueId b);

// torch.matmul: operands of rank 1 are a row on the left and a column on the right, and lose that axis again.
ValueId matmul(Call& call, ValueId a, ValueId b);

// One label per axis, each at most once in an operand.
using Labels = std::vector<int>;

// sum over the labels that `keep` lacks of a * b: axes come out in the order of `keep`. Axes of extent 1
// broadcast.
ValueId contract(Call& call, ValueId a, const Labels& a_labels, ValueId b, const Labels& b_labels,
                 const Labels& keep);

Status einsum(Call& call);

}  // namespace sixfold::aten
