// The elementwise half of a recurrent step, for f32: SIMD, compiled for several instruction sets
// (cpu_gates.cpp).
#pragma once

#include <cstdint>

namespace sixfold::cpu::rnn_gates {

// All take one row: gx = the input's share of the gates (biases included), gh = the state's; n units.
// c and the state may be updated in place.
void lstm(const float* gx, const float* gh, const float* c_in, float* c_out, float* h_out, int64_t n);
// bias: the hidden bias of all three gates
void gru(const float* gx, const float* gh, const float* bias, const float* h_in, float* h_out, int64_t n);
void tanh(const float* gx, const float* gh, float* h_out, int64_t n);
void relu(const float* gx, const float* gh, float* h_out, int64_t n);

}  // namespace sixfold::cpu::rnn_gates
