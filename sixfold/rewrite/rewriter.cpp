#include "sixfold/rewrite/rewriter.h"

#include "sixfold/graph/unknown.h"
#include "sixfold/ops/aten.h"
#include "sixfold/rewrite/patch_builder.h"

namespace sixfold {

Status Rewriter::apply_patch(Patch& patch, NodeId anchor, std::string_view rule) {
  if (!patch.status().ok()) return std::move(patch.status_);
  for (const auto& [old_value, new_value] : patch.replacements_) {
    const Type& had = graph_.type(old_value);
    const Type& has = patch.type(new_value);
    if (had.dtype != has.dtype || !equivalent(had.dims, has.dims))
      return invalid_model("the file says output ", graph_.value(old_value).output_index, " is ", had,
                           " but its op gives ", has);
  }
  const uint32_t base = static_cast<uint32_t>(graph_.value_count());
  assert(patch.graph_ == &graph_);
  const uint32_t origin = [&] {
    const uint32_t from = graph_.node(anchor).origin;
    if (graph_.origins[from].rule == rule && patch.folded_.empty()) return from;
    Origin o = graph_.origins[from];
    o.rule = rule;
    for (const uint32_t f : patch.folded_) o.folded.push_back(graph_.origins[f]);
    graph_.origins.push_back(std::move(o));
    return static_cast<uint32_t>(graph_.origins.size() - 1);
  }();

  // Patch ids count up from the graph's; constants and node outputs take their real ids here.
  std::vector<ValueId> real(patch.values_.size());
  const auto resolve = [&](ValueId id) {
    return id.valid() && id.index >= base ? real[id.index - base] : id;
  };
  for (size_t i = 0; i < patch.values_.size(); ++i)
    if (patch.values_[i].is_constant) {
      real[i] = graph_.add_constant("", std::move(patch.values_[i].constant));
      graph_.value(real[i]).encoding = std::move(patch.values_[i].encoding);
    }
  for (Patch::NewNode& n : patch.nodes_) {
    for (ValueId& in : n.inputs) in = resolve(in);
    std::vector<Type> types;
    for (const ValueId out : n.outputs) types.push_back(patch.values_[out.index - base].type);
    const NodeId id = graph_.add_node(n.op, std::move(n.target), std::move(n.inputs), std::move(n.attrs),
                                      types, origin, anchor);
    for (size_t i = 0; i < n.outputs.size(); ++i)
      real[n.outputs[i].index - base] = graph_.node(id).outputs[i];
  }
  for (const auto& [old_value, new_value] : patch.replacements_) {
    const ValueId with = resolve(new_value);
    // The name and encoding belong to the value that the model knows; its type is the file's spelling of
    // symbols.
    Value& to = graph_.value(with);
    const Value& from = graph_.value(old_value);
    if (to.name.empty()) to.name = from.name;
    if (!to.encoding) to.encoding = from.encoding;
    graph_.replace_uses(old_value, with);
  }
  log_.push_back({std::string(rule), graph_.origins[origin].name});
  return {};
}

Status Rewriter::canonicalize() {
  for (const NodeId id : graph_.order()) {
    if (graph_.node(id).op != Op::call || !allowed(graph_.node(id).target)) continue;
    const Node& node = graph_.node(id);
    bool used = false;
    for (const ValueId v : node.outputs) used = used || graph_.is_used(v);
    if (!used) {
      graph_.remove(id);
      continue;
    }
    const auto refuse = [&](std::string reason) {
      const Origin& o = graph_.origin(node);
      unsupported_.push_back({o.name, node.target, o.source, std::move(reason)});
    };
    if (const Attr* why = node.attrs.find(kUnknown)) {
      const auto* text = std::get_if<std::string>(why);
      refuse(text ? *text : "it was not read");
      continue;
    }
    const AtenRule* rule = aten::find_rule(node.target);
    if (!rule) {
      refuse(node.target.starts_with("aten.") ? "no rule for this op"
                                              : "no rule for this op, which is not torch's own");
      continue;
    }
    auto patch = PatchBuilder(graph_, node).apply(*rule);
    Status status = patch.ok() ? apply_patch(*patch, id, node.target) : Status(patch.take_error());
    if (!status.ok()) {
      if (status.error().code() != Code::Unsupported)
        return status.take_error().during(cat("reading ", describe(graph_, node)));
      refuse(status.error().message());
      continue;
    }
    graph_.remove(id);
  }
  if (!unsupported_.empty() && !options_.keep_unknown) {
    const Unsupported& u = unsupported_[0];
    std::string more;
    if (unsupported_.size() > 1) more = cat(" (and ", unsupported_.size() - 1, " more nodes)");
    return sixfold::unsupported("node ", u.node, " (", u.target, ")",
                                u.source.empty() ? "" : cat(" at ", u.source),
                                " is not supported: ", u.reason, more);
  }
  graph_.remove_dead();
  return verify(graph_);
}

Status Rewriter::apply(std::span<const Rule> rules) {
  constexpr int kMaxRounds = 50;  // a pair of rules that undo each other must not hang
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    for (const Rule& rule : rules) {
      for (const NodeId id : graph_.order()) {
        if (!graph_.node(id).alive || !allowed(rule.name)) continue;
        Match match = rule.apply(graph_, graph_.node(id));
        if (std::holds_alternative<NoMatch>(match)) continue;
        Status status;
        if (auto* patch = std::get_if<Patch>(&match))
          status = apply_patch(*patch, id, rule.name);
        else
          status = std::move(std::get<Error>(match));
        if (!status.ok())
          return status.take_error().during(
              cat("applying ", rule.name, " to ", describe(graph_, graph_.node(id))));
        changed = true;
      }
      graph_.remove_dead();
    }
    if (!changed) return verify(graph_);
  }
  return Error(Code::Internal, cat("rules still match after ", kMaxRounds, " rounds"));
}

Status Rewriter::rewrite_each(std::string_view prefix, const std::function<Match(const Node&)>& rule) {
  constexpr int kMaxRounds = 50;
  bool changed = true;
  for (int round = 0; changed; ++round) {
    if (round == kMaxRounds)
      return fail(Code::Internal, prefix, " rules still match after ", kMaxRounds, " rounds");
    changed = false;
    refused_.clear();
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const std::string name = cat(prefix, " ", node.op);
      if (node.op == Op::call || !allowed(name) || options_.whole.contains(graph_.origin(node).name))
        continue;
      Match match = rule(node);
      Status status;
      if (std::holds_alternative<NoMatch>(match)) continue;
      if (auto* patch = std::get_if<Patch>(&match))
        status = apply_patch(*patch, id, name);
      else
        status = std::move(std::get<Error>(match));
      if (!status.ok() && status.error().code() == Code::Unsupported) {
        refused_[id] = status.error().message();
        continue;
      }
      if (!status.ok())
        return status.take_error().during(cat("applying ", name, " to ", describe(graph_, node)));
      changed = true;
      graph_.remove(id);
    }
    graph_.remove_dead();
  }
  return verify(graph_);
}

Status Rewriter::finish(Status status, PipelineReport* report) const {
  if (report) {
    report->log.insert(report->log.end(), log_.begin(), log_.end());
    report->unsupported = unsupported_;
  }
  return status;
}

}  // namespace sixfold
