#include "sixfold/quantize/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "sixfold/engine/session.h"
#include "sixfold/quantize/ranks.h"
#include "sixfold/quantize/seen.h"
#include "sixfold/quantize/watched.h"

namespace sixfold {
namespace {

constexpr float kMovingAverage = 0.01f;  // torch's default

struct SampleRange {  // of one value in one sample
  uint32_t value = 0;
  float low = 0, high = 0;
};

// One thread's share: sums over its samples, and the sample that it ran last.
struct Worker {
  std::unique_ptr<cpu::Pool> pool;
  std::unique_ptr<Watched> model;
  std::vector<SeenValues> seen;  // by part; the last: of the samples in none
  size_t now = 0;                // the sample that it runs
  Status status;
};

class Calibrator {
 public:
  Calibrator(const Graph& graph, const Samples& samples, const CalibrateOptions& options)
      : graph_(graph), samples_(samples), options_(options), looker_(graph, options.histograms) {}

  Result<PartedObservations> run() {
    SF_TRY(check_samples(graph_, samples_));
    SF_ASSIGN(ranks_, Ranks::get());
    SF_TRY(make_workers());
    sets_.resize(1 + options_.parts);
    for (Observations& o : sets_) o.values.resize(graph_.value_count());
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
        keep(workers_[w], i);
      }
      if (options_.progress) options_.progress(first + now, total);
    }
    for (size_t w = 1; w < workers_.size(); ++w)
      for (size_t p = 0; p <= options_.parts; ++p) workers_[0].seen[p].merge(workers_[w].seen[p]);
    if (stride > 1) SF_TRY(exchange(failed));
    return finish_all();
  }

 private:
  Status make_workers() {
    const size_t threads =
        options_.threads ? options_.threads : std::max<size_t>(std::thread::hardware_concurrency(), 1);
    // Each worker packs the weights for itself: a large model runs in few of them, with threads inside.
    const size_t fit = std::max<size_t>((size_t{1} << 30) / (constant_bytes(graph_) + 1), 1);
    const size_t width = std::min({threads, fit, samples_.count()});
    workers_.resize(width);
    cpu::Pool all(threads);
    for (Worker& w : workers_) w.pool = std::make_unique<cpu::Pool>(std::max<size_t>(threads / width, 1));
    // The others find its packed weights (share_constants), if they are few enough.
    SF_TRY(make_worker(workers_[0], &all));
    all.for_each(width - 1,
                 [&](size_t i) { workers_[1 + i].status = make_worker(workers_[1 + i], nullptr); });
    for (Worker& w : workers_) SF_TRY(std::move(w.status));
    return {};
  }

  Status make_worker(Worker& w, cpu::Pool* making) {
    SF_ASSIGN(w.model, Watched::create(graph_, *w.pool, /*inside=*/false, options_.bf16, making));
    w.seen.assign(1 + options_.parts, SeenValues(graph_.value_count()));
    w.model->set_watch(
        [this, &w](ValueId v, const cpu::TensorDesc& desc, void* data) { return look(w, v, desc, data); });
    return {};
  }

  Status run_sample(Worker& w, size_t i) {
    w.now = i;
    SeenValues& seen = seen_in(w);
    std::fill(seen.sample.begin(), seen.sample.end(), Seen{});
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

  Status look(Worker& w, ValueId v, const cpu::TensorDesc& desc, const void* data) {
    if (desc.dtype != DType::f32 || desc.count() == 0) return {};
    if (options_.look) options_.look(w.now, v, desc, data);
    return looker_.look(v, desc, static_cast<const float*>(data),
                        options_.channels && w.now < options_.channel_samples, seen_in(w));
  }

  size_t part_of(size_t sample) const { return options_.parts ? options_.part_of(sample) : 0; }
  SeenValues& seen_in(Worker& w) const { return w.seen[part_of(w.now)]; }

  // A sample's ranges: averages move in the order of the samples, whoever ran them.
  void keep(Worker& w, size_t sample) {
    std::vector<SampleRange> ranges;
    SeenValues& seen = seen_in(w);
    for (size_t i = 0; i < seen.sample.size(); ++i) {
      const Seen& s = seen.sample[i];
      if (s.count == 0) continue;
      seen.all[i].merge(s);
      ranges.push_back({static_cast<uint32_t>(i), looker_.is_masked(i) ? s.unmasked_min : s.min, s.max});
    }
    if (ranks_.count() == 1)
      follow(ranges, sample);
    else
      ranges_[sample] = std::move(ranges);
  }
  void follow(const std::vector<SampleRange>& ranges, size_t sample) {
    const size_t part = part_of(sample);
    for (size_t set = 0; set < sets_.size(); ++set) {
      if (set > 0 && part == set - 1) continue;
      Observations& out = sets_[set];
      const bool first = out.samples++ == 0;
      for (const SampleRange& r : ranges) {
        if (r.value >= out.values.size()) continue;
        Observation& o = out.values[r.value];
        o.average_min = first ? r.low : o.average_min + kMovingAverage * (r.low - o.average_min);
        o.average_max = first ? r.high : o.average_max + kMovingAverage * (r.high - o.average_max);
        const float reach = std::max(std::fabs(r.low), std::fabs(r.high));
        o.mean_reach += (reach - o.mean_reach) / static_cast<float>(out.samples);
      }
    }
  }

  // What all ranks saw, into worker 0 of each of them; the first sample's error, to all of them.
  Status exchange(const std::optional<std::pair<size_t, std::string>>& failed) {
    Packer mine;
    mine.add(static_cast<uint64_t>(failed ? failed->first : UINT64_MAX));
    mine.add_text(failed ? failed->second : "");
    mine.add(static_cast<uint64_t>(ranges_.size()));
    for (const auto& [sample, ranges] : ranges_) {
      mine.add(static_cast<uint64_t>(sample));
      mine.add_list(ranges);
    }
    std::vector<SeenValues>& seen = workers_[0].seen;
    for (const SeenValues& part : seen) part.pack(mine);
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
      for (SeenValues& part : seen) part.merge(SeenValues::unpack(theirs, part.all.size()));
    }
    if (first != UINT64_MAX) return invalid_argument(message);
    for (const auto& [sample, ranges] : ranges_) follow(ranges, sample);
    ranges_.clear();
    return {};
  }

  // Of all samples, and of all but each part's.
  PartedObservations finish_all() {
    std::vector<SeenValues>& parts = workers_[0].seen;
    const std::vector<Seen> constants = look_at_constants();
    PartedObservations out;
    for (size_t without = 0; without < options_.parts; ++without) {
      SeenValues seen = parts.back();
      for (size_t p = 0; p < options_.parts; ++p)
        if (p != without) seen.merge(parts[p]);
      out.without.push_back(std::move(sets_[1 + without]));
      finish(seen, constants, out.without.back());
    }
    SeenValues all = std::move(parts.back());
    for (size_t p = 0; p < options_.parts; ++p) all.merge(parts[p]);
    out.all = std::move(sets_[0]);
    finish(all, constants, out.all);
    return out;
  }

  void finish(SeenValues& seen, const std::vector<Seen>& constants, Observations& out) const {
    for (const Value& v : graph_.values())
      if (is_constant(v)) add_constant(seen, v, constants[v.id.index], out);
    for (size_t i = 0; i < out.values.size(); ++i) {
      Observation& o = out.values[i];
      const Seen& s = seen.all[i];
      o.min = s.min;
      o.max = s.max;
      o.unmasked_min = s.unmasked_min;
      o.row_max = s.row_max;
      o.count = s.count;
      o.non_finite = s.non_finite;
      o.histogram.assign(seen.histograms[i].counts().begin(), seen.histograms[i].counts().end());
      o.low = static_cast<float>(seen.histograms[i].low());
      o.high = static_cast<float>(seen.histograms[i].high());
      o.channels = std::move(seen.channels[i]);
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
      if (const Observation& o = out.values[i]; looker_.has_rows(i) && o.seen() && std::isfinite(o.row_max))
        reach = std::max(reach, o.max - o.row_max + kForgotten);
    for (size_t i = 0; i < out.values.size(); ++i) {
      Observation& o = out.values[i];
      if (!looker_.is_masked(i) || looker_.has_rows(i) || !(o.min <= kMask || (o.non_finite && o.count)))
        continue;
      o.min = o.average_min = std::min(-reach, o.unmasked_min);
      o.unmasked_min = o.min;
      if (!(o.max >= o.min)) o.max = o.min;
      if (o.max <= kMask) o.max = o.average_max = o.min;
      o.histogram.clear();
    }
  }

  bool is_constant(const Value& v) const {
    return (v.kind == ValueKind::constant || v.kind == ValueKind::state) && v.type.dtype == DType::f32 &&
           graph_.is_used(v.id);
  }

  std::vector<Seen> look_at_constants() const {
    std::vector<Seen> out(graph_.value_count());
    for (const Value& v : graph_.values())
      if (is_constant(v)) out[v.id.index] = look_at_constant(v);
    return out;
  }

  static Seen look_at_constant(const Value& v) {
    Seen s;
    const Tensor flat = to_contiguous(v.constant);
    s.count = static_cast<uint64_t>(flat.count());
    const Extremes e = extremes_of(flat.values<float>().data(), flat.count());
    const bool plain = e.finite && e.min > kMask;  // as nearly all are
    if (plain) s.min = s.unmasked_min = e.min, s.max = e.max;
    if (!plain)
      for (const float x : flat.values<float>()) {
        if (!std::isfinite(x)) {
          s.non_finite = true;
          continue;
        }
        s.min = std::min(s.min, x);
        s.max = std::max(s.max, x);
        if (x > kMask) s.unmasked_min = std::min(s.unmasked_min, x);
      }
    return s;
  }

  void add_constant(SeenValues& seen, const Value& v, Seen s, Observations& out) const {
    for (const Graph::Mutation& m : graph_.mutations)
      if (m.state == v.id) s.merge(seen.all[m.next.index]);
    seen.all[v.id.index] = s;
    out.values[v.id.index].average_min = s.min;
    out.values[v.id.index].average_max = s.max;
  }

  const Graph& graph_;
  const Samples& samples_;
  const CalibrateOptions& options_;
  const Looker looker_;
  std::vector<Worker> workers_;
  Ranks ranks_;
  std::vector<Observations> sets_;                     // of all samples, and of all but each part's
  std::map<size_t, std::vector<SampleRange>> ranges_;  // by sample; of all ranks at the end
};

}  // namespace

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
  SF_ASSIGN(PartedObservations out, Calibrator(graph, samples, options).run());
  return std::move(out.all);
}

Result<PartedObservations> calibrate_in_parts(const Graph& graph, const Samples& samples,
                                              const CalibrateOptions& options) {
  return Calibrator(graph, samples, options).run();
}

}  // namespace sixfold
