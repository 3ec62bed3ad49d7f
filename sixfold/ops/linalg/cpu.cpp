#include <algorithm>

#include "sixfold/cpu/kernel.h"
#include "sixfold/ops/linalg/functions.h"

namespace sixfold::cpu {
namespace {

using linalg::Matrix;

enum class Function { cholesky, lu, solve, solve_triangular, geqrf, householder_product, svd, eigh, exp };

struct Plan {
  Function function;
  int64_t batch, m, n, k;  // k: columns of the second operand, or its length
  bool upper = false, unit = false, check = false;
};

template <typename T>
void load(const T* from, int64_t count, double* to) {
  std::copy_n(from, count, to);
}
template <typename T>
void store(const double* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}
void transpose(const Matrix& a, const Matrix& out) {
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) out(j, i) = a(i, j);
}

// Room for one matrix of the batch: operands, results, order of rows, pivots.
size_t scratch_bytes(const Plan& p) {
  const int64_t side = std::max({p.m, p.n, p.k, int64_t{1}});
  return static_cast<size_t>(side * side * 5 + side * 4) * sizeof(double);
}

template <typename T>
class LinalgKernel {
 public:
  explicit LinalgKernel(const Plan& plan) : p_(plan) {}

  Status operator()(const Buffers& buffers) const {
    for (int64_t i = 0; i < p_.batch; ++i) SF_TRY(one(buffers, i));
    return ok_status();
  }

 private:
  // The matrices of one batch entry. Outputs that nobody reads still get their place in memory.
  Status one(const Buffers& b, int64_t i) const {
    const int64_t m = p_.m, n = p_.n, k = p_.k, least = std::min(m, n),
                  side = std::max({m, n, k, int64_t{1}});
    auto* scratch = reinterpret_cast<double*>(b.scratch);
    const Matrix a{scratch, m, n};
    double* more = scratch + side * side;
    double* line = scratch + side * side * 5;
    load(b.input<T>(0) + i * m * n, m * n, a.data);
    switch (p_.function) {
      case Function::cholesky: {
        const int64_t failed = linalg::cholesky(a);
        if (failed != 0 && p_.check)
          return invalid_argument("matrix ", i, " is not positive definite: its minor of order ", failed,
                                  " is not");
        b.output<int32_t>(1)[i] = static_cast<int32_t>(failed);
        store(a.data, m * n, b.output<T>() + i * m * n);
        return ok_status();
      }
      case Function::lu: {
        linalg::Pivoting pivoting{b.output<int32_t>(1) + i * least, b.output<int64_t>(2) + i * m, 1};
        b.output<int32_t>(4)[i] = static_cast<int32_t>(linalg::lu(a, pivoting));
        b.output<T>(3)[i] = static_cast<T>(pivoting.sign);
        store(a.data, m * n, b.output<T>() + i * m * n);
        return ok_status();
      }
      case Function::solve:
        return solve(b, i, a, {more, n, k}, line);
      case Function::solve_triangular: {
        const Matrix x{more, n, k};
        load(b.input<T>(1) + i * n * k, n * k, x.data);
        linalg::solve_triangular(a, x, p_.upper, p_.unit);
        store(x.data, n * k, b.output<T>() + i * n * k);
        return ok_status();
      }
      case Function::geqrf:
        linalg::geqrf(a, line);
        store(a.data, m * n, b.output<T>() + i * m * n);
        store(line, least, b.output<T>(1) + i * least);
        return ok_status();
      case Function::householder_product: {
        const Matrix q{more, m, n};
        load(b.input<T>(1) + i * k, k, line);
        linalg::householder_product(a, line, k, q);
        store(q.data, m * n, b.output<T>() + i * m * n);
        return ok_status();
      }
      case Function::svd:
        svd(b, i, a, more, line);
        return ok_status();
      case Function::eigh: {
        const Matrix v{more, n, n};
        linalg::eigh(a, line, v);
        store(line, n, b.output<T>() + i * n);
        store(v.data, n * n, b.output<T>(1) + i * n * n);
        return ok_status();
      }
      case Function::exp: {
        const Matrix out{more, n, n};
        linalg::exponential(a, out, more + side * side);
        store(out.data, n * n, b.output<T>() + i * n * n);
        return ok_status();
      }
    }
    return ok_status();
  }

  Status solve(const Buffers& b, int64_t i, const Matrix& a, const Matrix& x, double* line) const {
    const int64_t n = p_.n, k = p_.k;
    auto* order = reinterpret_cast<int64_t*>(line);
    auto* pivots = reinterpret_cast<int32_t*>(line + std::max({p_.m, n, k, int64_t{1}}));
    linalg::Pivoting pivoting{pivots, order, 1};
    const int64_t singular = linalg::lu(a, pivoting);
    if (singular != 0 && p_.check)
      return invalid_argument("matrix ", i, " is singular: its pivot ", singular, " is zero");
    const T* right = b.input<T>(1) + i * n * k;
    for (int64_t row = 0; row < n; ++row) load(right + order[row] * k, k, &x(row, 0));
    linalg::solve_triangular(a, x, /*upper=*/false, /*unit_diagonal=*/true);
    linalg::solve_triangular(a, x, /*upper=*/true, /*unit_diagonal=*/false);
    store(x.data, n * k, b.output<T>() + i * n * k);
    return ok_status();
  }

  // Of a wide matrix by its transpose.
  void svd(const Buffers& b, int64_t i, const Matrix& a, double* more, double* s) const {
    const int64_t m = p_.m, n = p_.n, least = std::min(m, n), side = std::max(m, n);
    const Matrix tall{more, std::max(m, n), least}, v{more + side * side, least, least};
    if (m >= n)
      std::copy_n(a.data, m * n, tall.data);
    else
      transpose(a, tall);
    linalg::svd(tall, s, v);
    const Matrix flipped{more + 2 * side * side, least, n};
    T* u = b.output<T>() + i * m * least;
    T* vh = b.output<T>(2) + i * least * n;
    if (m >= n) {
      transpose(v, flipped);
      store(tall.data, m * least, u);
      store(flipped.data, least * n, vh);
    } else {  // a^T = tall s v^T, so a = v s tall^T
      transpose(tall, flipped);
      store(v.data, m * least, u);
      store(flipped.data, least * n, vh);
    }
    store(s, least, b.output<T>(1) + i * least);
  }

  Plan p_;
};

Result<Function> function_of(const std::string& name) {
  static constexpr const char* kNames[] = {
      "cholesky", "lu", "solve", "solve_triangular", "geqrf", "householder_product", "svd", "eigh", "exp"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Function>(i);
  return unsupported("no function of matrices is named '", name, "'");
}

}  // namespace

KernelResult linalg(const KernelCall& call) {
  SF_ASSIGN(const Function function, function_of(call.attrs.text("function")));
  const Shape& shape = call.in[0].shape;
  Plan plan{function, 1, shape[shape.size() - 2], shape.back(), 0};
  for (size_t i = 0; i + 2 < shape.size(); ++i) plan.batch *= shape[i];
  if (call.in.size() > 1) plan.k = call.in[1].shape.back();
  const auto flag = [&](std::string_view name) {
    const Attr* attr = call.attrs.find(name);
    return attr && std::holds_alternative<bool>(*attr) && std::get<bool>(*attr);
  };
  plan.upper = flag("upper");
  plan.unit = flag("unit");
  plan.check = flag("check");
  const KernelTraits traits{.scratch_bytes = scratch_bytes(plan)};
  if (call.in[0].dtype == DType::f32) return make_kernel(LinalgKernel<float>(plan), traits);
  if (call.in[0].dtype == DType::f64) return make_kernel(LinalgKernel<double>(plan), traits);
  return unsupported(call.attrs.text("function"), " of ", call.in[0].dtype);
}

}  // namespace sixfold::cpu
