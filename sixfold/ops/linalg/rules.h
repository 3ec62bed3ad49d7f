// Building blocks of the rules for matrices.
#pragma once

#include <vector>

#include "sixfold/ops/expr.h"

namespace sixfold::aten {

// A function of ops/linalg/functions.h; every output.
std::vector<Expr> linalg(Call& call, std::string_view function, std::vector<ValueId> operands,
                         Attrs flags = {});

// The matrix argument, its batch axes before the last two. Records an error for any other rank.
Expr matrix(Call& call, std::string_view name);
Expr transposed(const Expr& x);
Expr product(const Expr& a, const Expr& b);
Expr unit_matrix(const Expr& like);                              // of the last axis' extent
Expr diagonal_of(const Expr& x);                                 // [.., min(M, N)]
Expr triangle(const Expr& x, Op compare, int64_t diagonal = 0);  // where column `compare` row + diagonal
Expr cut(const Expr& x, int64_t axis,
         int64_t end);  // the first elements of an axis, counted from the end if negative
Expr inverse(const Expr& a, bool check = true);
Expr singular_values(const Expr& a);

std::span<const AtenRule> factor_rules();  // aten_factor.cpp: Cholesky, LU, QR
std::span<const AtenRule>
spectrum_rules();  // aten_spectrum.cpp: singular values and what follows from them, powers

}  // namespace sixfold::aten
