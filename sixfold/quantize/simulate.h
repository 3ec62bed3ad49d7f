// The quantized graph as floats on the CPU engine: every value is rounded to its encoding where it is
// computed. What that differs from the float graph is told by layer and for the whole.
#pragma once

#include <span>

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/samples.h"
#include "sixfold/quantize/watched.h"

namespace sixfold {

// A graph with encodings, ready to run so.
class Simulation {
 public:
  // inside: shows the values inside products too, not rounded. rounded: its constants are, so that several
  // may be made of one with_rounded_constants. bf16: as Watched has it.
  static Result<std::unique_ptr<Simulation>> create(Graph quantized, cpu::Pool& pool, bool inside = false,
                                                    bool rounded = false, bool bf16 = false);
  // The grids of another graph that differs in nothing else.
  void take_grids(const Graph& quantized);
  // The watch sees values after they were rounded, `before` sees them before that.
  void set_watch(Watched::Watch watch) { watch_ = std::move(watch); }
  void set_before(Watched::Watch before) { before_ = std::move(before); }
  Status run(std::span<const Tensor> inputs);  // the tensor leaves
  Tensor output(size_t i) const { return model_->output(i); }
  size_t output_count() const { return model_->output_count(); }

 private:
  std::vector<std::optional<Encoding>> inputs_, values_;  // by input, by value
  std::vector<Tensor> fed_;                               // of the last run: an output may be a view of one
  std::unique_ptr<Watched> model_;
  Watched::Watch watch_, before_;
};

struct LayerError {
  ValueId value;  // of the float graph
  double power = 0, error = 0;
  double sqnr_db() const;
  void add(const Tensor& want, const Tensor& got);  // row-major
  void add(const LayerError& other);                // of other samples
};

// Of all outputs together: the mean of their decibels, where those above 60 count as 60. The worst alone
// would be chance where it is a number or two.
double decibels_of(std::span<const LayerError> outputs);

struct Accuracy {
  size_t samples = 0;
  std::vector<LayerError> outputs;  // float ones
  std::vector<LayerError> layers;   // every value that both graphs compute, in order
  double sqnr_db = 0;               // of the output that is worst
  bool bf16 = false;                // factors of both graphs' products were rounded to it
  // Indices into layers, worst first.
  std::vector<size_t> worst() const;
};

struct MeasureOptions {
  size_t threads = 0;
  size_t most_bytes =
      size_t{512} << 20;  // weights of more are not in memory twice: values of all samples are
  bool bf16 = false;      // as Watched has it
};

// real: the graph that was calibrated; quantized: the same with encodings, perhaps with more nodes.
Result<Accuracy> measure(const Graph& real, const Graph& quantized, const Samples& samples,
                         const MeasureOptions& options = {});

}  // namespace sixfold
