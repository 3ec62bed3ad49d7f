// Quantization as a step of compiling: the options' words, the device's answers, samples, encodings.
#include <cctype>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "sixfold/base/mapped_file.h"
#include "sixfold/base/npy.h"
#include "sixfold/graph/precision.h"
#include "sixfold/quantize/effort.h"
#include "sixfold/quantize/equalize.h"
#include "sixfold/quantize/interchange.h"
#include "sixfold/quantize/masks.h"
#include "sixfold/quantize/plan.h"
#include "sixfold/quantize/price.h"
#include "sixfold/quantize/ranks.h"
#include "sixfold/quantize/scale_logs.h"
#include "sixfold/quantize/search.h"
#include "sixfold/quantize/settle_biases.h"
#include "sixfold/quantize/simulate.h"
#include "sixfold/quantize/watched.h"
#include "sixfold/quantize/widen.h"
#include "tools/accuracy.h"
#include "tools/balance.h"
#include "tools/htp.h"
#include "tools/search.h"

namespace sixfold::tools {
namespace {

// Adds the seconds that it lives.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum) {}
  ~Stopwatch() { sum_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& sum_;
  Clock::time_point begin_ = Clock::now();
};

// --block-size NAME=1,32
Result<std::map<std::string, std::vector<int64_t>>> block_sizes(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int64_t>> out;
  for (const std::string& text : texts) {
    const size_t equals = std::min(text.rfind('='), text.size());
    std::vector<int64_t> sizes;
    const char *at = text.data() + std::min(equals + 1, text.size()), *end = text.data() + text.size();
    while (at < end) {
      int64_t n = 0;
      const auto [stop, error] = std::from_chars(at, end, n);
      if (error != std::errc() || n < 1 || (stop != end && *stop != ',')) {
        sizes.clear();
        break;
      }
      sizes.push_back(n);
      at = stop == end ? end : stop + 1;
    }
    if (equals == 0 || sizes.empty())
      return invalid_argument("--block-size is '", text, "', expected NODE=1,32");
    out[text.substr(0, equals)] = std::move(sizes);
  }
  return out;
}

// What the device refuses on a grid and takes in float. Ranges are not known yet: all are alike.
Status find_float_nodes(const Graph& graph, QuantizeOptions& options, Device& device) {
  SF_ASSIGN(const QuantizePlan plan, annotate(graph, options));
  Graph trial = graph;
  SF_TRY(quantize_for_trial(trial, plan));
  for (const NodeId id : trial.order()) {
    const Node& node = trial.node(id);
    if (computes_in_float(node) || is_stored_weight(trial, node) || node.op == Op::convert) continue;
    const Status fixed = ask(trial, node, device);
    if (!fixed.ok() && ask(graph, graph.node(id), device).ok())
      options.in_float[id.index] = reason_of(fixed.error());
  }
  return {};
}

// Only those that the device takes with 16 bits.
Status keep_taken(const Graph& graph, QuantizeOptions options, std::set<uint32_t>& wide, Device& device) {
  options.wide.insert(wide.begin(), wide.end());
  SF_ASSIGN(const QuantizePlan plan, annotate(graph, options));
  Graph trial = graph;
  SF_TRY(quantize_for_trial(trial, plan));
  std::erase_if(wide, [&](uint32_t i) {
    const Node& node = trial.node({i});
    return computes_in_float(node) || is_stored_weight(trial, node) || node.op == Op::convert ||
           !ask(trial, node, device).ok();
  });
  return {};
}

// Each once, the first ones: an op of the model may be many nodes, and what is wide most of them.
std::string names_of(const Graph& graph, const std::set<uint32_t>& nodes) {
  constexpr size_t kMostNames = 24;
  std::vector<std::string> names;
  for (const uint32_t i : nodes)
    if (const std::string& name = graph.origin(graph.node({i})).name;
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) out += cat(i == 0 ? "" : ", ", names[i]);
  if (names.size() > kMostNames) out += cat(" and ", names.size() - kMostNames, " others");
  return out;
}

std::string told_wide(const Graph& graph, const std::set<uint32_t>& wide, int bits, double longer,
                      size_t converts) {
  const std::string names = names_of(graph, wide);
  if (bits == 16)
    return cat("16 bits tell too little of some values, so these compute with halves (--no-widen: with 16): ",
               names);
  return cat("8 bits tell too little of some values, so these compute with 16, which is predicted to take ",
             std::lround(longer * 100), " % longer, with ", converts,
             converts == 1 ? " convert" : " converts", " (--no-widen: with 8): ", names);
}

Result<QuantizeOptions> options_of(const HtpChoice& choice, const HtpTargetDevice& device) {
  QuantizeOptions options{.per_channel_conv = choice.per_channel_conv,
                          .per_channel_linear = choice.per_channel_linear,
                          .per_channel_embedding = choice.per_channel_embedding,
                          .arch = device.arch};
  SF_ASSIGN(options.scheme, scheme_of(choice));
  SF_ASSIGN(options.block_sizes, block_sizes(choice.block_sizes));
  if (!choice.recipe.empty()) {
    SF_ASSIGN(const auto file, MappedFile::open(choice.recipe));
    const auto bytes = file->bytes();
    auto recipe = Recipe::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!recipe.ok()) return recipe.take_error().during(cat("reading ", choice.recipe));
    options.recipe = std::move(recipe).value();
  }
  return options;
}

// What ideal arithmetic gives for the first sample: floats, each value rounded to its grid once.
Status write_simulated(const Graph& graph, const Samples& samples, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return invalid_argument("cannot make ", folder, ": ", error.message());
  cpu::Pool pool(1);
  SF_ASSIGN(const auto simulation, Simulation::create(graph, pool));
  SF_ASSIGN(const std::vector<Tensor> inputs, samples.read(0));
  SF_TRY(simulation->run(inputs));
  for (size_t i = 0; i < simulation->output_count(); ++i)
    SF_TRY(write_npy(cat(folder, "/output_", i, ".npy"), simulation->output(i)));
  return {};
}

// A graph quantized in several ways; remembers which nodes are wide and what was converted.
class Attempts {
 public:
  Attempts(const Graph& graph, QuantizeOptions options, Device& device, double& seconds)
      : graph_(graph), options_(std::move(options)), device_(device), seconds_(seconds) {
    halves_ = options_.scheme.activation_bits == 16;  // are the next
  }
  bool halves() const { return halves_; }
  const std::set<uint32_t>& wide(Wide which) { return wide_[which]; }
  const std::set<uint32_t>& joins() const { return options_.wide; }  // with 16 bits in any case
  bool has_halves(Wide which) const {
    return which != Wide::none && (halves_ ? !wide_.at(which).empty() : !logarithms_.empty());
  }
  const std::vector<std::string>& converts(const RangeChoice& ranges, Wide which) {
    return reports_[{ranges, which}].converts;
  }

  Result<Graph> make(const Observations& seen, const RangeChoice& ranges, Wide which) {
    const Stopwatch time(seconds_);
    QuantizeOptions options = options_;
    options.ranges = ranges;
    if (halves_)
      for (const uint32_t i : wide_[which]) options.in_float[i] = "16 bits tell too little of its values";
    else
      options.wide.insert(wide_[which].begin(), wide_[which].end());
    if (!halves_ && which != Wide::none)
      for (const uint32_t i : logarithms_) {
        options.in_float[i] = "8 bits tell too little of its values";
        options.wide.erase(i);
      }
    SF_ASSIGN(const QuantizePlan plan, annotate(graph_, options));
    Graph quantized = graph_;
    SF_ASSIGN((reports_[{ranges, which}]), quantize(quantized, plan, seen));
    return quantized;
  }

  // Before any is made: what joins parts of outputs computes with 16 bits in all of them.
  Result<std::vector<ValueId>> find_parts(const Observations& seen) {
    if (halves_) return std::vector<ValueId>();
    SF_ASSIGN(const QuantizePlan plan, annotate(graph_, options_));
    UnequalJoins joins = find_unequal_joins(graph_, plan, seen);
    SF_TRY(keep_taken(graph_, options_, joins.nodes, device_));
    options_.wide = std::move(joins.nodes);
    return std::move(joins.parts);
  }

  Result<bool> find_wide(const Observations& seen, Wide which, Wide now) {
    if (!halves_ && looked_.empty()) {
      logarithms_ = find_logarithms(graph_, seen);
      keep_halves(seen, logarithms_);
    }
    if (looked_.insert(which).second) {
      SF_ASSIGN(wide_[which], find(seen, which, now));
    }
    return !wide_[which].empty();
  }

 private:
  Result<std::set<uint32_t>> find(const Observations& seen, Wide which, Wide now) const {
    std::set<uint32_t> out;
    if (which == Wide::some) {
      SF_ASSIGN(const QuantizePlan plan, annotate(graph_, options_));
      out = find_wide_nodes(graph_, plan, seen, options_.scheme.activation_bits);
      if (!halves_) out.insert(logarithms_.begin(), logarithms_.end());
    }
    if (which == Wide::more) {
      SF_ASSIGN(const QuantizePlan plan, annotate(graph_, options_));
      const auto wide = wide_.find(now);
      out = find_worthwhile_nodes(graph_, plan, seen, options_.scheme,
                                  wide != wide_.end() ? wide->second : std::set<uint32_t>());
    }
    if (which == Wide::first || which == Wide::ends) out = find_first_nodes(graph_);
    if (which == Wide::last || which == Wide::ends) out.merge(find_last_nodes(graph_));
    if (which == Wide::all)
      for (const NodeId id : graph_.order()) out.insert(id.index);
    if (halves_) {
      keep_halves(seen, out);
      return out;
    }
    SF_TRY(keep_taken(graph_, options_, out, device_));
    const bool by_place = which == Wide::first || which == Wide::last || which == Wide::ends;
    if (by_place && !are_cheap(graph_, options_.scheme, out)) out.clear();
    return out;
  }

  // Only those that halves hold and the device takes so.
  void keep_halves(const Observations& seen, std::set<uint32_t>& nodes) const {
    std::erase_if(nodes, [&](uint32_t i) {
      const Node& node = graph_.node({i});
      return !fits_halves(graph_, node, seen) || options_.in_float.contains(i) ||
             !ask(graph_, node, device_).ok();
    });
  }

  const Graph& graph_;
  QuantizeOptions options_;
  Device& device_;
  double& seconds_;
  bool halves_ = false;
  std::set<Wide> looked_;
  std::set<uint32_t> logarithms_;            // that compute with halves where anything is wide
  std::map<Wide, std::set<uint32_t>> wide_;  // NodeId::index
  std::map<std::pair<RangeChoice, Wide>, QuantizeReport> reports_;
};

struct Quantized {
  Improved improved;
  std::set<uint32_t> wide;   // nodes that compute with 16 bits, or halves
  std::set<uint32_t> joins;  // those that do for the sake of an output's parts
  std::vector<std::string> converts;
  double longer = 0;  // predicted, as a part of the time with 8 bits
  bool has_halves = false;
  std::optional<Accuracy> accuracy;  // where it was a rival's
};

Result<Quantized> quantize_graph(const Graph& graph, const QuantizeOptions& options, const Samples& samples,
                                 ImproveOptions improving, bool widens, Device& asked, double& seconds) {
  Attempts attempts(graph, options, asked, seconds);
  const auto make = [&](const Observations& seen, const RangeChoice& ranges, Wide which) {
    return attempts.make(seen, ranges, which);
  };
  improving.halves = attempts.halves();
  if (widens) {
    improving.find_parts = [&](const Observations& seen) { return attempts.find_parts(seen); };
    improving.find_wide = [&](const Observations& seen, Wide which, Wide now) {
      return attempts.find_wide(seen, which, now);
    };
  }
  Quantized out;
  SF_ASSIGN(out.improved, quantize_well(graph, samples, make, improving));
  out.wide = attempts.wide(out.improved.wide);
  out.joins = attempts.joins();
  out.converts = attempts.converts(out.improved.ranges, out.improved.wide);
  out.has_halves = attempts.has_halves(out.improved.wide);
  if (!attempts.halves() && !out.wide.empty())
    out.longer = longer_with(graph, out.improved.graph, options.scheme, out.wide);
  return out;
}

Result<double> judged_db(const Graph& real, const Samples& samples, Quantized& quantized) {
  const Improved& improved = quantized.improved;
  SF_ASSIGN(quantized.accuracy, judge(real, improved.graph, samples,
                                      {.held_back = improved.held_back, .bf16 = improved.bf16_tells}));
  return decibels_of(quantized.accuracy->outputs);
}

constexpr size_t kMostBytesBeside = size_t{256} << 20;  // of constants, which both then hold

// On graphs of its own, while the method is lowered: by the emulator, since another library's threads and
// processes are its own affair.
void begin_judging(HtpMethod& method, const Graph& real, const Improved& improved,
                   const std::shared_ptr<const Samples>& samples, bool emulated) {
  const bool beside = emulated && constant_bytes(real) <= kMostBytesBeside;
  const JudgeOptions options{.held_back = improved.held_back, .bf16 = improved.bf16_tells};
  method.judged = std::async(beside ? std::launch::async : std::launch::deferred,
                             [real, quantized = improved.graph, options, samples,
                              packed = improved.packed]() -> Result<nlohmann::ordered_json> {
                               SF_ASSIGN(const Accuracy accuracy, judge(real, quantized, *samples, options));
                               return describe_accuracy(real, accuracy);
                             });
  if (!beside) method.judged.wait();
}

}  // namespace

Result<std::function<Status(Graph&)>> trial_grids(const HtpChoice& choice, HtpTargetDevice& device) {
  SF_ASSIGN(QuantizeOptions options, options_of(choice, device));
  options.whole_model = false;
  return std::function<Status(Graph&)>([options, &device](Graph& graph) -> Status {
    QuantizeOptions here = options;
    EngineDevice asked(*device.backend);
    SF_TRY(find_float_nodes(graph, here, asked));
    SF_ASSIGN(const QuantizePlan plan, annotate(graph, here));
    return quantize_for_trial(graph, plan);
  });
}

Status quantize_method(HtpMethod& method, const HtpChoice& choice, HtpTargetDevice& device) {
  Graph& graph = method.source->graph;
  finite_masks(graph);
  SF_ASSIGN(QuantizeOptions options, options_of(choice, device));
  if (choice.calib.empty() && !choice.assume_ranges)
    return invalid_argument("--precision ", choice.precision, " needs samples: --calib FILE");
  if (!choice.encodings.empty()) SF_TRY(import_encodings(graph, choice.encodings));
  EngineDevice asked(*device.backend);
  {
    const Stopwatch time(method.quantize_s);
    SF_TRY(find_float_nodes(graph, options, asked));
  }
  SF_ASSIGN(const QuantizePlan first, annotate(graph, options));
  const bool searches = choice.precision == "auto";  // then what is told is of what it finds
  if (!searches) SF_TRY(tell(first.violations, choice.strict, method.notes));
  method.computes_in_float = !first.in_float.empty();
  if (choice.calib.empty()) {
    method.notes.push_back(
        "without samples (--calib) every range is taken as -1 to 1: enough to ask the device");
    return quantize_for_trial(graph, first);
  }
  if (!graph.symbols.empty()) {
    std::string bounds;
    for (const auto& [symbol, range] : graph.symbols)
      if (std::isalpha(static_cast<unsigned char>(symbol[0]))) bounds += cat(" --bound ", symbol, "=N");
    return invalid_argument("sizes are symbolic, and ranges are found by running the model: give them by",
                            bounds);
  }
  SF_ASSIGN(const Preprocess preprocess, parse_preprocess(choice.preprocess));
  SF_ASSIGN(const std::shared_ptr<const Samples> samples, open_samples(choice.calib, preprocess));
  SF_ASSIGN(ImproveOptions improving, improvements(choice, options.scheme.activation_bits));
  SF_TRY(check_samples(graph, *samples));
  const bool widens = choice.widen && !searches && !options.scheme.computes_in_float();
  if (widens && choice.encodings.empty() && choice.export_encodings.empty() &&
      has_logarithms_of_products(graph)) {
    SF_ASSIGN(const Observations seen, calibrate(graph, *samples, {.histograms = false}));
    if (const size_t n = scale_logarithms(graph, seen))
      method.notes.push_back(cat(n, n == 1 ? " logarithm has its operand" : " logarithms have their operands",
                                 " scaled by a power of two that is added to the result, so that halves hold "
                                 "it (--no-widen: as it is)"));
  }
  SF_TRY(balance_as_told(graph, *samples, choice, method));
  if (choice.equalize) equalize_weights(graph);
  if (choice.smooth > 0) {
    CalibrateOptions by_channel{.histograms = false, .channels = true};
    SF_ASSIGN(const Observations channels, calibrate(graph, *samples, by_channel));
    smooth_activations(graph, channels, choice.smooth);
  }
  if (searches) {
    const auto calibration = some_samples(*samples, 0, samples->count() - held_back(samples->count()));
    SF_ASSIGN(Search found, search_for(graph, options, *calibration, choice.max_loss));
    method.search = describe_search(found, choice.max_loss);
    options.schemes = std::move(found.schemes);
    options.in_float.clear();
    SF_TRY(find_float_nodes(graph, options, asked));
    SF_ASSIGN(const QuantizePlan chosen, annotate(graph, options));
    SF_TRY(tell(chosen.violations, choice.strict, method.notes));
    method.computes_in_float = !chosen.in_float.empty();
  }
  improving.doubt = [&](const std::string& what) {
    method.notes.push_back(what);
    warn(what);
  };
  const auto quantized = [&](const Graph& real, const ImproveOptions& how) {
    return quantize_graph(real, options, *samples, how, widens, asked, method.quantize_s);
  };
  improving.look_at_channels = !searches && balances_by_itself(choice, options);
  // Where channels may gain by it, the balanced graph is quantized too. Of a large model the one that a try
  // finds better goes on alone; of others both do, and what they lose in the end decides.
  const bool large = work_of(graph) >= kLargeWork;
  std::optional<Graph> balanced;
  std::optional<Quantized> other;
  double plain_db = 0, balanced_db = 0;
  ImproveOptions as_it_is = improving;
  if (improving.look_at_channels)
    as_it_is.goes_on = [&](const Improved& so_far, double tried) -> Result<bool> {
      if (so_far.wide == Wide::all) return true;  // 16 bits have room for channels that differ
      SF_ASSIGN(balanced, balanced_copy(graph, so_far.seen, *samples, calibrates_in_bf16(graph, improving)));
      if (!balanced) return true;
      ImproveOptions rival = improving;
      rival.doubt = nullptr;  // the same samples
      rival.look_at_channels = false;
      if (large)
        rival.goes_on = [&](const Improved&, double decibels) -> Result<bool> {
          plain_db = tried;
          balanced_db = decibels;
          return is_gain(plain_db, balanced_db);
        };
      SF_ASSIGN(Quantized made, quantized(*balanced, rival));
      if (made.improved.stopped) return true;
      other = std::move(made);
      return !large;
    };
  SF_ASSIGN(Quantized best, quantized(graph, as_it_is));
  if (other && !large) {
    SF_ASSIGN(plain_db, judged_db(graph, *samples, best));
    SF_ASSIGN(balanced_db, judged_db(*balanced, *samples, *other));
  }
  if (other && is_gain(plain_db, balanced_db)) {
    method.notes.push_back(told_balance(plain_db, balanced_db));
    best = std::move(*other);
    graph = std::move(*balanced);
  }
  Improved& improved = best.improved;
  method.accuracy = describe_choice(graph, improved);
  if (best.accuracy)
    method.accuracy.update(describe_accuracy(graph, *best.accuracy));
  else if (choice.tell_accuracy)
    begin_judging(method, graph, improved, samples, choice.engine == "emulator");
  if (choice.encodings.empty()) settle_biases(graph, improved.seen, improved.graph);
  graph = std::move(improved.graph);
  method.conversions = std::move(best.converts);
  if (improved.wide == Wide::all)
    method.notes.push_back(cat(
        "with 8 bits the outputs are mostly noise, so all that the device takes so computes with 16, which "
        "is predicted to take ",
        std::lround(best.longer * 100), " % longer (--no-widen: with 8)"));
  else if (improved.wide != Wide::none)
    method.notes.push_back(
        told_wide(graph, best.wide, options.scheme.activation_bits, best.longer, method.conversions.size()));
  if (!best.joins.empty() && improved.wide != Wide::all)
    method.notes.push_back(
        cat("parts of an output are so small beside others that 8 bits for all tell little of them, so what "
            "joins them computes with 16 (--no-widen: with 8): ",
            names_of(graph, best.joins)));
  if (best.has_halves) method.computes_in_float = true;
  SF_ASSIGN(const Ranks ranks, Ranks::get());
  if (!choice.export_encodings.empty() && ranks.writes())
    SF_TRY(export_encodings(graph, choice.export_encodings));
  if (!choice.simulated.empty() && ranks.writes()) SF_TRY(write_simulated(graph, *samples, choice.simulated));
  return {};
}

}  // namespace sixfold::tools
