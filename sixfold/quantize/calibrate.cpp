#include "sixfold/quantize/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "sixfold/engine/session.h"
#include "sixfold/quantize/ranks.h"
#include "sixfold/quantize/statistics.h"
#include "sixfold/quantize/watched.h"

namespace sixfold {
namespace {

// Of a value in one sample, a histogram takes so many elements at most, in short runs spread over all of
// them.
constexpr int64_t kRun = 16, kMostRuns = 256;
constexpr float kMovingAverage = 0.01f;  // torch's default

struct Seen {
  float min = std::numeric_limits<float>::infinity(), max = -min;
  float unmasked_min = std::numeric_limits<float>::infinity();
  float row_max = std::numeric_limits<float>::infinity();
  bool non_finite = false;
  uint64_t count = 0;

  void merge(const Seen& o) {
    min = std::min(min, o.min);
    max = std::max(max, o.max);
    unmasked_min = std::min(unmasked_min, o.unmasked_min);
    row_max = std::min(row_max, o.row_max);
    non_finite = non_finite || o.non_finite;
    count += o.count;
  }
};

struct SampleRange {  // of one value in one sample
  uint32_t value = 0;
  float low = 0, high = 0;
};

// Read by nothing but softmax along its rows.
bool is_softmax_operand(const Graph& graph, const Value& v) {
  return !v.users.empty() && std::all_of(v.users.begin(), v.users.end(), [&](NodeId u) {
    const Node& user = graph.node(u);
    if (user.op != Op::softmax) return false;
    const auto rank = static_cast<int64_t>(v.type.rank());
    const int64_t dim = user.attrs.integer("dim");
    return dim == rank - 1 || dim == -1;
  });
}

// One thread's part: sums over its samples, and the sample that it ran last.
struct Worker {
  std::unique_ptr<cpu::Pool> pool;
  std::unique_ptr<Watched> model;
  std::vector<Seen> sample, all;
  std::vector<Histogram> histograms;
  std::vector<std::vector<Range>> channels;
  size_t now = 0;  // the sample that it runs
  Status status;
};

class Calibrator {
 public:
  Calibrator(const Graph& graph, const Samples& samples, const CalibrateOptions& options)
      : graph_(graph), samples_(samples), options_(options), masked_(find_masked(graph)) {
    for (const Value& v : graph.values()) rows_.push_back(is_softmax_operand(graph, v));
  }

  Result<Observations> run() {
    SF_TRY(check_samples(graph_, samples_));
    SF_ASSIGN(ranks_, Ranks::get());
    SF_TRY(make_workers());
    Observations out;
    out.values.resize(graph_.value_count());
    out.samples = samples_.count();
    // This process's part: every ranks-th sample.
    const size_t stride = ranks_.count(), total = (samples_.count() + stride - 1 - ranks_.rank()) / stride;
    const auto sample = [&](size_t i) { return ranks_.rank() + i * stride; };
    const size_t width = workers_.size();
    if (options_.progress) options_.progress(0, total);
    cpu::Pool pool(width);
    std::optional<std::pair<size_t, std::string>> failed;
    for (size_t first = 0; first < total && !failed; first += width) {
      const size_t now = std::min(width, total - first);
      pool.for_each(now, [&](size_t w) { workers_[w].status = run_sample(workers_[w], sample(first + w)); });
      for (size_t w = 0; w < now && !failed; ++w) {  // the first sample's error, whichever thread was faster
        const size_t i = sample(first + w);
        if (!workers_[w].status.ok()) {
          Error error = workers_[w].status.take_error().during(cat("running ", samples_.name(i)));
          if (stride == 1) return error;
          failed = {i, error.message()};
          break;
        }
        keep(workers_[w], i, out);
      }
      if (options_.progress) options_.progress(first + now, total);
    }
    for (const Worker& w : workers_) merge(w);
    if (stride > 1) SF_TRY(exchange(failed, out));
    finish(out);
    return out;
  }

 private:
  Status make_workers() {
    const size_t threads =
        options_.threads ? options_.threads : std::max<size_t>(std::thread::hardware_concurrency(), 1);
    // Each worker packs the weights for itself: a large model runs in few of them, with threads inside.
    const size_t fit = std::max<size_t>((size_t{1} << 30) / (constant_bytes(graph_) + 1), 1);
    const size_t width = std::min({threads, fit, samples_.count()});
    workers_.resize(width);
    cpu::Pool(width).for_each(width, [&](size_t i) {
      Worker& w = workers_[i];
      w.pool = std::make_unique<cpu::Pool>(std::max<size_t>(threads / width, 1));
      w.status = make_worker(w);
    });
    for (Worker& w : workers_) SF_TRY(std::move(w.status));
    return {};
  }

  Status make_worker(Worker& w) {
    SF_ASSIGN(w.model, Watched::create(graph_, *w.pool));
    w.sample.resize(graph_.value_count());
    w.all.resize(graph_.value_count());
    w.histograms.resize(graph_.value_count());
    w.channels.resize(graph_.value_count());
    w.model->set_watch(
        [this, &w](ValueId v, const cpu::TensorDesc& desc, void* data) { return look(w, v, desc, data); });
    return {};
  }

  Status run_sample(Worker& w, size_t i) {
    std::fill(w.sample.begin(), w.sample.end(), Seen{});
    w.now = i;
    SF_ASSIGN(const std::vector<Tensor> fed, samples_.read(i));
    SF_ASSIGN(const Feed feed, match_inputs(graph_, fed));
    size_t k = 0;
    for (const Leaf& leaf : graph_.inputs) {
      if (!leaf.value.valid()) continue;
      const Tensor& t = feed.tensors[k++];
      const cpu::TensorDesc desc{t.dtype, t.shape, contiguous_strides(t.shape), nullptr};
      SF_TRY(look(w, leaf.value, desc, t.data));
    }
    SF_TRY(w.model->run(feed.tensors));
    if (options_.ran) options_.ran(i, *w.model);
    return {};
  }

  Error not_finite(ValueId v, const char* what) const {
    const Node* node = graph_.producer(v);
    const std::string who = node ? describe(graph_, *node) : cat("input ", graph_.value(v).name);
    return invalid_argument(who, " has ", what, " among its values, and no range covers that");
  }

  Status look(Worker& w, ValueId v, const cpu::TensorDesc& desc, const void* data) {
    if (desc.dtype != DType::f32 || desc.count() == 0) return {};
    if (options_.look) options_.look(w.now, v, desc, data);
    const auto* x = static_cast<const float*>(data);
    const int64_t n = desc.count();
    Seen& seen = w.sample[v.index];
    seen.count += static_cast<uint64_t>(n);
    const Extremes e = extremes_of(x, n);
    seen.min = seen.unmasked_min = e.min;
    seen.max = e.max;
    if (!e.finite) SF_TRY(look_closely(seen, v, x, n));
    const bool masked = masked_[v.index] && seen.min <= kMask;
    if (masked || !e.finite) {
      seen.unmasked_min = std::numeric_limits<float>::infinity();
      for (int64_t i = 0; i < n; ++i)
        if (x[i] > kMask) seen.unmasked_min = std::min(seen.unmasked_min, x[i]);
    }
    if (rows_[v.index]) look_at_rows(seen, desc, x);
    if (options_.histograms) count(w, v, seen, masked, x, n);
    if (options_.channels && w.now < options_.channel_samples && desc.rank() >= 2)
      look_at_channels(w, v, desc, x);
    return {};
  }

  // Something is not finite: a mask, or an error.
  Status look_closely(Seen& seen, ValueId v, const float* x, int64_t n) const {
    seen.non_finite = true;
    seen.min = std::numeric_limits<float>::infinity();
    seen.max = -seen.min;
    for (int64_t i = 0; i < n; ++i) {
      if (std::isnan(x[i])) return not_finite(v, "a NaN");
      if (x[i] == std::numeric_limits<float>::infinity()) return not_finite(v, "an infinity");
      if (std::isinf(x[i])) {
        if (!masked_[v.index]) return not_finite(v, "an infinity");
        continue;
      }
      seen.min = std::min(seen.min, x[i]);
      seen.max = std::max(seen.max, x[i]);
    }
    if (seen.max < seen.min) seen.min = seen.max = kMask;  // a mask of nothing but infinities
    return {};
  }

  // The least of the rows' largest elements, rows that are masked as a whole left out.
  static void look_at_rows(Seen& seen, const cpu::TensorDesc& desc, const float* x) {
    if (desc.rank() == 0 || !cpu::is_row_major(desc)) return;
    const int64_t width = desc.shape.back();
    for (int64_t r = 0; r < desc.count(); r += width) {
      const float most = extremes_of(x + r, width).max;
      if (most > kMask) seen.row_max = std::min(seen.row_max, most);
    }
  }

  void count(Worker& w, ValueId v, const Seen& seen, bool masked, const float* x, int64_t n) {
    const float low = masked ? seen.unmasked_min : seen.min;
    if (!(low <= seen.max)) return;
    Histogram& h = w.histograms[v.index];
    h.cover(low, seen.max);
    const int64_t step = n / (kRun * kMostRuns);
    if (step <= 1) return h.add(x, n);
    uint32_t place = 1;  // runs at places that no layout lines up with
    for (int64_t i = 0; i + kRun * step <= n; i += kRun * step) {
      place = place * 1664525u + 1013904223u;
      h.add(x + i + (place >> 8) % static_cast<uint32_t>(kRun * (step - 1)), kRun);
    }
  }

  void look_at_channels(Worker& w, ValueId v, const cpu::TensorDesc& desc, const float* x) {
    const size_t axis = channel_axis(desc.rank());
    const int64_t channels = desc.shape[axis], inner = desc.strides[axis];
    std::vector<Range>& ranges = w.channels[v.index];
    if (ranges.empty())
      ranges.assign(static_cast<size_t>(channels),
                    {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()});
    const auto widen = [](Range& r, float min, float max) {
      r.min = std::min(r.min, min);
      r.max = std::max(r.max, max);
    };
    const int64_t n = desc.count();
    if (inner == 1) {
      for (int64_t i = 0; i < n; i += channels)
        for (int64_t c = 0; c < channels; ++c) widen(ranges[static_cast<size_t>(c)], x[i + c], x[i + c]);
      return;
    }
    for (int64_t i = 0; i < n; i += inner) {
      const Extremes e = extremes_of(x + i, inner);
      widen(ranges[static_cast<size_t>(i / inner % channels)], e.min, e.max);
    }
  }

  // A sample's ranges: averages move in the order of the samples, whoever ran them.
  void keep(Worker& w, size_t sample, Observations& out) {
    std::vector<SampleRange> ranges;
    for (size_t i = 0; i < w.sample.size(); ++i) {
      const Seen& s = w.sample[i];
      if (s.count == 0) continue;
      w.all[i].merge(s);
      ranges.push_back({static_cast<uint32_t>(i), masked_[i] ? s.unmasked_min : s.min, s.max});
    }
    if (ranks_.count() == 1)
      follow(ranges, sample, out);
    else
      ranges_[sample] = std::move(ranges);
  }
  static void follow(const std::vector<SampleRange>& ranges, size_t sample, Observations& out) {
    for (const SampleRange& r : ranges) {
      if (r.value >= out.values.size()) continue;
      Observation& o = out.values[r.value];
      o.average_min = sample ? o.average_min + kMovingAverage * (r.low - o.average_min) : r.low;
      o.average_max = sample ? o.average_max + kMovingAverage * (r.high - o.average_max) : r.high;
    }
  }

  // What all ranks saw, into worker 0 of each of them; the first sample's error, to all of them.
  Status exchange(const std::optional<std::pair<size_t, std::string>>& failed, Observations& out) {
    Packer mine;
    mine.add(static_cast<uint64_t>(failed ? failed->first : UINT64_MAX));
    mine.add_text(failed ? failed->second : "");
    mine.add(static_cast<uint64_t>(ranges_.size()));
    for (const auto& [sample, ranges] : ranges_) {
      mine.add(static_cast<uint64_t>(sample));
      mine.add_list(ranges);
    }
    const Worker& w = workers_[0];
    for (size_t i = 0; i < w.all.size(); ++i) {
      mine.add(w.all[i]);
      w.histograms[i].pack(mine);
      mine.add_list(w.channels[i]);
    }
    const std::vector<std::string> all = ranks_.gather(mine.bytes);
    uint64_t first = UINT64_MAX;
    std::string message;
    for (size_t r = 0; r < all.size(); ++r) {
      Unpacker theirs(all[r]);
      const auto sample = theirs.take<uint64_t>();
      std::string text = theirs.take_text();
      if (sample < first) first = sample, message = std::move(text);
      for (auto n = theirs.take<uint64_t>(); n-- > 0;) {
        const auto at = theirs.take<uint64_t>();
        ranges_[static_cast<size_t>(at)] = theirs.take_list<SampleRange>();
      }
      if (r == ranks_.rank()) continue;
      Worker other;
      for (size_t i = 0; i < w.all.size(); ++i) {
        other.all.push_back(theirs.take<Seen>());
        other.histograms.push_back(Histogram::unpack(theirs));
        other.channels.push_back(theirs.take_list<Range>());
      }
      merge(other);
    }
    if (first != UINT64_MAX) return invalid_argument(message);
    for (const auto& [sample, ranges] : ranges_) follow(ranges, sample, out);
    ranges_.clear();
    return {};
  }

  void merge(const Worker& w) {
    if (&w == &workers_[0]) return;
    Worker& to = workers_[0];
    for (size_t i = 0; i < to.all.size(); ++i) {
      to.all[i].merge(w.all[i]);
      to.histograms[i].merge(w.histograms[i]);
      auto& mine = to.channels[i];
      const auto& theirs = w.channels[i];
      if (mine.empty()) mine = theirs;
      for (size_t c = 0; c < theirs.size(); ++c)
        mine[c] = {std::min(mine[c].min, theirs[c].min), std::max(mine[c].max, theirs[c].max)};
    }
  }

  void finish(Observations& out) {
    Worker& w = workers_[0];
    for (const Value& v : graph_.values())
      if ((v.kind == ValueKind::constant || v.kind == ValueKind::state) && v.type.dtype == DType::f32 &&
          graph_.is_used(v.id))
        look_at_constant(w, v, out);
    for (size_t i = 0; i < out.values.size(); ++i) {
      Observation& o = out.values[i];
      const Seen& s = w.all[i];
      o.min = s.min;
      o.max = s.max;
      o.unmasked_min = s.unmasked_min;
      o.row_max = s.row_max;
      o.count = s.count;
      o.non_finite = s.non_finite;
      o.histogram.assign(w.histograms[i].counts().begin(), w.histograms[i].counts().end());
      o.low = static_cast<float>(w.histograms[i].low());
      o.high = static_cast<float>(w.histograms[i].high());
      o.channels = std::move(w.channels[i]);
    }
    settle_masks(out);
    // The same elements under another name.
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (node.op == Op::reshape || node.op == Op::permute) {
        Observation copy = out.values[node.input(0).index];
        if (node.op == Op::permute || graph_.dims(node.output()) != graph_.dims(node.input(0)))
          copy.channels.clear();
        if (!out.values[node.output().index].seen()) out.values[node.output().index] = std::move(copy);
      }
    }
  }

  // A mask need be no lower than what takes the largest score below all that counts.
  void settle_masks(Observations& out) const {
    float reach = kForgotten;
    for (size_t i = 0; i < out.values.size(); ++i)
      if (const Observation& o = out.values[i]; rows_[i] && o.seen() && std::isfinite(o.row_max))
        reach = std::max(reach, o.max - o.row_max + kForgotten);
    for (size_t i = 0; i < out.values.size(); ++i) {
      Observation& o = out.values[i];
      if (!masked_[i] || rows_[i] || !(o.min <= kMask || (o.non_finite && o.count))) continue;
      o.min = o.average_min = std::min(-reach, o.unmasked_min);
      o.unmasked_min = o.min;
      if (!(o.max >= o.min)) o.max = o.min;
      if (o.max <= kMask) o.max = o.average_max = o.min;
      o.histogram.clear();
    }
  }

  void look_at_constant(Worker& w, const Value& v, Observations& out) {
    Seen s;
    const Tensor flat = to_contiguous(v.constant);
    s.count = static_cast<uint64_t>(flat.count());
    for (const float x : flat.values<float>()) {
      if (!std::isfinite(x)) {
        s.non_finite = true;
        continue;
      }
      s.min = std::min(s.min, x);
      s.max = std::max(s.max, x);
      if (x > kMask) s.unmasked_min = std::min(s.unmasked_min, x);
    }
    for (const Graph::Mutation& m : graph_.mutations)
      if (m.state == v.id) s.merge(w.all[m.next.index]);
    w.all[v.id.index] = s;
    out.values[v.id.index].average_min = s.min;
    out.values[v.id.index].average_max = s.max;
  }

  const Graph& graph_;
  const Samples& samples_;
  const CalibrateOptions& options_;
  std::vector<bool> masked_, rows_;
  std::vector<Worker> workers_;
  Ranks ranks_;
  std::map<size_t, std::vector<SampleRange>> ranges_;  // by sample; of all ranks at the end
};

}  // namespace

size_t channel_axis(size_t rank) { return rank >= 4 ? 1 : rank - 1; }

Status check_samples(const Graph& graph, const Samples& samples) {
  if (samples.count() == 0) return invalid_argument("calibration needs samples, and there are none");
  for (size_t i = 0; i < samples.count(); ++i) {
    SF_ASSIGN(const std::vector<Tensor> fed, samples.read(i));
    if (auto feed = match_inputs(graph, fed); !feed.ok())
      return feed.take_error().during(cat("checking ", samples.name(i)));
  }
  return {};
}

Result<Observations> calibrate(const Graph& graph, const Samples& samples, const CalibrateOptions& options) {
  return Calibrator(graph, samples, options).run();
}

std::vector<bool> find_masked(const Graph& graph) {
  // Backwards: what a softmax reads, through ops that add or choose.
  std::vector<bool> out(graph.value_count(), false);
  const std::vector<NodeId> order = graph.order();
  const auto all_users = [&](ValueId v) {
    const Value& value = graph.value(v);
    return !value.users.empty() && std::all_of(value.users.begin(), value.users.end(), [&](NodeId u) {
      const Node& user = graph.node(u);
      switch (user.op) {
        case Op::softmax:
          return true;
        case Op::add:
        case Op::sub:
        case Op::mul:
        case Op::where:
        case Op::minimum:
        case Op::maximum:
        case Op::clamp:
        case Op::reshape:
        case Op::permute:
        case Op::expand:
        case Op::repeat:
        case Op::slice:
        case Op::concat:
        case Op::convert:
        case Op::to:
          return static_cast<bool>(out[user.output().index]);
        default:
          return false;
      }
    });
  };
  for (size_t i = order.size(); i-- > 0;)
    for (const ValueId v : graph.node(order[i]).outputs) out[v.index] = all_users(v);
  for (const Value& v : graph.values())
    if (v.kind != ValueKind::node) out[v.id.index] = all_users(v.id);
  return out;
}

void finite_masks(Graph& graph) {
  constexpr float kFar = -30000;  // a sum of two is a half yet
  const std::vector<bool> masked = find_masked(graph);
  for (size_t i = 0; i < masked.size(); ++i) {
    Value& v = graph.value(ValueId{static_cast<uint32_t>(i)});
    if (!masked[i] || v.kind != ValueKind::constant || v.constant.dtype != DType::f32 || v.encoding) continue;
    const Tensor flat = to_contiguous(v.constant);
    const auto is_lowest = [](float x) { return std::isinf(x) && x < 0; };
    const auto numbers = flat.values<float>();
    if (std::none_of(numbers.begin(), numbers.end(), is_lowest)) continue;
    std::byte* bytes = nullptr;
    Tensor finite = Tensor::allocate(DType::f32, flat.shape, &bytes);
    std::replace_copy_if(numbers.begin(), numbers.end(), reinterpret_cast<float*>(bytes), is_lowest, kFar);
    v.constant = std::move(finite);
  }
}

}  // namespace sixfold
