// How dims of operands and parameters go together, as the device checks it. Counts, ranks and kinds of
// parameters were checked before. Functions are named by ops/qnn_rules.inc.
#pragma once

#include "sixfold/emulator/op_view.h"

namespace sixfold::emulator {

using ShapeRule = Status (*)(const OpView&);

namespace shapes {

Status same(const OpView& op);             // every result like in[0]
Status broadcast(const OpView& op);        // numpy's rules
Status ranks_broadcast(const OpView& op);  // only ranks are looked at: the device says nothing of dims
Status select(const OpView& op);
Status neuron(const OpView& op);
Status prelu(const OpView& op);
Status axis(const OpView& op);
Status last_axis(const OpView& op);
Status argument(const OpView& op);
Status reduce(const OpView& op);
Status batchnorm(const OpView& op);
Status group_norm(const OpView& op);
Status layer_norm(const OpView& op);
Status random(const OpView& op);
Status reshape(const OpView& op);
Status transpose(const OpView& op);
Status concat(const OpView& op);
Status slice(const OpView& op);
Status pad(const OpView& op);
Status tile(const OpView& op);
Status space_to_batch(const OpView& op);
Status batch_to_space(const OpView& op);
Status channel_shuffle(const OpView& op);
Status depth_to_space(const OpView& op);
Status space_to_depth(const OpView& op);
Status one_hot(const OpView& op);
Status gather(const OpView& op);
Status gather_elements(const OpView& op);
Status scatter_elements(const OpView& op);
Status scatter_nd(const OpView& op);
Status top_k(const OpView& op);
Status convolution(const OpView& op);
Status depthwise(const OpView& op);
Status transposed(const OpView& op);
Status fully_connected(const OpView& op);
Status matmul(const OpView& op);
Status pool2d(const OpView& op);
Status pool3d(const OpView& op);
Status response_norm(const OpView& op);
Status grid_sample(const OpView& op);
Status resize(const OpView& op);

}  // namespace shapes
}  // namespace sixfold::emulator
