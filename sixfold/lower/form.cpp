#include "sixfold/lower/form.h"

#include <algorithm>
#include <deque>
#include <map>

namespace sixfold {
namespace {

Wish table_wish(Op op) {
  switch (op) {
#define HTP(id, form, rewrite_fn, lower_fn) \
  case Op::id:                              \
    return Wish::form;
#include "sixfold/ops/htp.def"
#undef HTP
    default:
      return Wish::plain;
  }
}

// A follower looks at its operands axis by axis: those that are no constants must have its rank, or be
// numbers.
bool ranks_agree(const Graph& graph, const Node& node) {
  const size_t rank = graph.type(node.output()).rank();
  for (const ValueId v : node.inputs)
    if (v.valid() && !graph.constant(v) && graph.type(v).rank() != rank) return false;
  return rank >= 3 && rank <= 5;
}

// Axes of one place come or go behind the first two, and all else stays: in either order the data do too.
bool keeps_channels(const Graph& graph, const Node& reshape) {
  const Dims &in = graph.dims(reshape.input(0)), &out = graph.dims(reshape.output());
  if (out.size() < 3 || out.size() > 5 || !(in[0] == out[0]) || !(in[1] == out[1])) return false;
  const auto pixels = [](const Dims& dims) {
    Dims rest(dims.begin() + 2, dims.end());
    std::erase(rest, Dim(1));
    return rest;
  };
  return pixels(in) == pixels(out);
}

// Maximum flow by augmenting along shortest paths; the graphs have a few thousand edges and small flows.
class Network {
 public:
  static constexpr int kInfinite = 1 << 28;
  int add() {
    edges_.emplace_back();
    return static_cast<int>(edges_.size()) - 1;
  }
  void connect(int from, int to, int capacity) {
    if (capacity == 0) return;
    edges_[at(from)].push_back({to, capacity, static_cast<int>(edges_[at(to)].size())});
    edges_[at(to)].push_back({from, 0, static_cast<int>(edges_[at(from)].size()) - 1});
  }
  int flow(int source, int sink) {
    int total = 0;
    while (levels(source, sink)) {
      next_.assign(edges_.size(), 0);
      while (const int pushed = push(source, sink, kInfinite)) total += pushed;
    }
    return total;
  }
  // After flow(): whether a node is on the source's side of the cut.
  bool near_source(int node) const { return level_[at(node)] >= 0; }

 private:
  struct Edge {
    int to, capacity, back;
  };
  static size_t at(int i) { return static_cast<size_t>(i); }
  bool levels(int source, int sink) {
    level_.assign(edges_.size(), -1);
    level_[at(source)] = 0;
    std::deque<int> queue{source};
    while (!queue.empty()) {
      const int n = queue.front();
      queue.pop_front();
      for (const Edge& e : edges_[at(n)])
        if (e.capacity > 0 && level_[at(e.to)] < 0) {
          level_[at(e.to)] = level_[at(n)] + 1;
          queue.push_back(e.to);
        }
    }
    return level_[at(sink)] >= 0;
  }
  // One augmenting path, found without recursion: islands may be chains of thousands of nodes.
  int push(int source, int sink, int limit) {
    std::vector<std::pair<int, size_t>> path;  // node, edge taken
    int n = source;
    while (n != sink) {
      size_t& i = next_[at(n)];
      const auto& edges = edges_[at(n)];
      while (i < edges.size() && !(edges[i].capacity > 0 && level_[at(edges[i].to)] == level_[at(n)] + 1))
        ++i;
      if (i < edges.size()) {
        path.emplace_back(n, i);
        n = edges[i].to;
        continue;
      }
      if (path.empty()) return 0;
      n = path.back().first;
      ++next_[at(n)];
      path.pop_back();
    }
    int amount = limit;
    for (const auto& [from, i] : path) amount = std::min(amount, edges_[at(from)][i].capacity);
    for (const auto& [from, i] : path) {
      Edge& e = edges_[at(from)][i];
      e.capacity -= amount;
      edges_[at(e.to)][at(e.back)].capacity += amount;
    }
    return amount;
  }

  std::vector<std::vector<Edge>> edges_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

// What a change of order costs: nothing when it moves no data, as for [N, C, 1, 1].
int cost_of(const Dims& dims) {
  if (dims.size() < 3 || dims.size() > 5) return 0;
  if (dims[1].is_static() && dims[1].value() == 1) return 0;
  for (size_t i = 2; i < dims.size(); ++i)
    if (!(dims[i].is_static() && dims[i].value() == 1)) return 1;
  return 0;
}

}  // namespace

Wish wish_of(const Graph& graph, const Node& node) {
  const Wish wish = table_wish(node.op);
  if (wish == Wish::plain) return wish;
  const size_t rank =
      node.inputs.empty() ? graph.type(node.output()).rank() : graph.type(node.input(0)).rank();
  if (rank < 3 || rank > 5) return Wish::plain;
  if (wish == Wish::image) return wish;
  switch (node.op) {
    case Op::reshape:
      return keeps_channels(graph, node) ? Wish::follow : Wish::plain;
    case Op::softmax:
    case Op::log_softmax:  // the device takes the last axis only
      if (node.attrs.integer("dim") == 1) return Wish::image;
      return node.attrs.integer("dim") + 1 == static_cast<int64_t>(rank) ? Wish::plain : Wish::follow;
    case Op::sum:
    case Op::mean:
    case Op::prod:
    case Op::amax:
    case Op::amin:
    case Op::argmax:
    case Op::argmin:
      return node.attrs.flag("keepdim") ? Wish::follow : Wish::plain;
    default:
      return ranks_agree(graph, node) ? Wish::follow : Wish::plain;
  }
}

Shape channels_last_order(size_t rank) {
  Shape order{0};
  for (size_t i = 2; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  if (rank > 1) order.push_back(1);
  return order;
}

int64_t channels_last_axis(int64_t a, size_t rank) {
  if (rank < 3 || a == 0) return a;
  return a == 1 ? static_cast<int64_t>(rank) - 1 : a - 1;
}

Dims in_form(const Dims& dims, Form form) {
  if (form == Form::plain || dims.size() < 3) return dims;
  Dims out;
  for (const int64_t a : channels_last_order(dims.size())) out.push_back(dims[static_cast<size_t>(a)]);
  return out;
}

// Minimum cut: the source's side is channels-last. A value whose maker and some user are on different sides
// costs one transposition, however many such users it has: two gates per value, one for each direction, say
// exactly that.
Forms choose_forms(const Graph& graph) {
  constexpr int kNowhere = -1;
  Network net;
  const int channels_last = net.add(), plain = net.add();
  const std::vector<NodeId> order = graph.order();
  std::map<NodeId, int> vertex;
  const auto is_permute_to = [&](const Node& n, const Shape& target) {
    return n.op == Op::permute && n.attrs.ints("dims") == target;
  };
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    const Wish wish = wish_of(graph, node);
    const int v = wish == Wish::image ? channels_last : wish == Wish::plain ? plain : net.add();
    vertex[id] = v;
  }
  // On which side a user of `v` looks at it. A permute from one order to the other is free from the other
  // side, and any other permute takes what it gets.
  const auto looks = [&](const Node& user, ValueId v) {
    const size_t rank = graph.type(v).rank();
    if (rank >= 3 && is_permute_to(user, channels_last_order(rank))) return channels_last;
    if (user.op == Op::grid_sampler && v == user.input(1)) return plain;  // positions, not pixels
    return user.op == Op::permute ? kNowhere : vertex[user.id];
  };
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::constant) continue;
    const int cost = cost_of(value.type.dims);
    if (cost == 0) continue;
    int maker = plain;
    if (value.kind == ValueKind::node) {
      const Node& producer = graph.node(value.producer);
      if (!producer.alive) continue;
      maker = vertex[producer.id];
      Shape back(value.type.rank());
      const Shape to = channels_last_order(value.type.rank());
      for (size_t i = 0; i < to.size(); ++i) back[static_cast<size_t>(to[i])] = static_cast<int64_t>(i);
      if (is_permute_to(producer, back))
        maker = channels_last;
      else if (producer.op == Op::permute && !is_permute_to(producer, to))
        maker = net.add();  // it writes in either order
    }
    std::vector<int> users;
    for (const NodeId u : value.users) users.push_back(looks(graph.node(u), value.id));
    for (const Leaf& leaf : graph.outputs)
      if (leaf.value == value.id) users.push_back(plain);
    std::erase(users, kNowhere);
    std::erase(users, maker);
    if (users.empty()) continue;
    const int gate_in = net.add(), gate_out = net.add();
    net.connect(maker, gate_in, cost);
    net.connect(gate_out, maker, cost);
    for (const int u : users) {
      net.connect(gate_in, u, Network::kInfinite);
      net.connect(u, gate_out, Network::kInfinite);
    }
  }
  Forms forms;
  forms.transposes = static_cast<size_t>(net.flow(channels_last, plain));
  uint32_t most = 0;
  for (const NodeId id : order) most = std::max(most, id.index);
  forms.nodes.assign(most + 1, Form::plain);
  for (const NodeId id : order)
    if (net.near_source(vertex[id])) forms.nodes[id.index] = Form::channels_last;
  return forms;
}

}  // namespace sixfold
