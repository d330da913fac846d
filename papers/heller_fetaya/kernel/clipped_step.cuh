// A step whose per-example gradients are shortened to CLIP_TARGET: all signals first, then norms, then all moves.
//
// In a dense layer an example's gradient is the outer product of its input and its delta, with the bias as one more
// input of 1, so its squared norm is a product; the gradients of the two small kernels are there example by example.
#pragma once

#include "backward.cuh"
#include "convolutions.cuh"
#include "dense.cuh"

// The derivatives of a layer's inputs, as in dense_backward, from weights that stay as they are.
template <int IN, int OUT, bool SLOPE>
__device__ __forceinline__ void dense_signals(const float* weights, const float* in, const float* delta, float* out) {
  const int lane = threadIdx.x & 31;
  const bool active = lane < OUT / 4;
  const int column = active ? 4 * lane : 0;
  float4 deltas[4], next = {};
#pragma unroll
  for (int j = 0; j < 4; j++) {
    deltas[j] = at4(delta + (column + j) * BATCH);
    if (!active) deltas[j].x = deltas[j].y = deltas[j].z = deltas[j].w = 0.0f;
  }
  int row = threadIdx.x >> 5;
  if (row < IN) next = at4(weights + row * OUT + column);
#pragma unroll 1
  for (; row < IN; row += WARPS) {
    const float4 weight = next;
    if (row + WARPS < IN) next = at4(weights + (row + WARPS) * OUT + column);
    float sums[4];
    sums[0] = weight.x * deltas[0].x + weight.y * deltas[1].x + weight.z * deltas[2].x + weight.w * deltas[3].x;
    sums[1] = weight.x * deltas[0].y + weight.y * deltas[1].y + weight.z * deltas[2].y + weight.w * deltas[3].y;
    sums[2] = weight.x * deltas[0].z + weight.y * deltas[1].z + weight.z * deltas[2].z + weight.w * deltas[3].z;
    sums[3] = weight.x * deltas[0].w + weight.y * deltas[1].w + weight.z * deltas[2].w + weight.w * deltas[3].w;
    const float total = warp_sums<4>(sums);
    if (lane < BATCH) {
      const float value = in[row * BATCH + lane];
      out[row * BATCH + lane] = SLOPE ? total * slope(value) : total;
    }
  }
}

// The moves of a layer's weights and biases; deltas are scaled already.
template <int IN, int OUT>
__device__ __forceinline__ void dense_moves(
    float* weights, word place, const float* in, const float* delta, const Run& run) {
  const int lane = threadIdx.x & 31, column = 4 * lane;
  if (lane < OUT / 4) {
    float4 deltas[4], next = {};
#pragma unroll
    for (int j = 0; j < 4; j++) deltas[j] = at4(delta + (column + j) * BATCH);
    int row = threadIdx.x >> 5;
    if (row < IN) next = at4(weights + row * OUT + column);
#pragma unroll 1
    for (; row < IN; row += WARPS) {
      const float4 weight = next, x = at4(in + row * BATCH);
      if (row + WARPS < IN) next = at4(weights + (row + WARPS) * OUT + column);
      const word here = place + row * OUT + column;
      float2 left = {weight.x, weight.y}, right = {weight.z, weight.w}, towards;
      towards.x = dot(x, deltas[0]);
      towards.y = dot(x, deltas[1]);
      left = moved_pair(run, left, towards, here);
      towards.x = dot(x, deltas[2]);
      towards.y = dot(x, deltas[3]);
      right = moved_pair(run, right, towards, here + 2);
      float4 stored = {left.x, left.y, right.x, right.y};
      *(float4*)(weights + row * OUT + column) = stored;
    }
  }
  for (int i = threadIdx.x; i < OUT / 2; i += THREADS) {
    float4 first = at4(delta + 2 * i * BATCH), second = at4(delta + (2 * i + 1) * BATCH);
    float2 gradient = {(first.x + first.y) + (first.z + first.w), (second.x + second.y) + (second.z + second.w)};
    float* bias = weights + IN * OUT + 2 * i;
    *(float2*)bias = moved_pair(run, at2(bias), gradient, place + IN * OUT + 2 * i);
  }
}

__device__ __forceinline__ float square(float x) { return x * x; }

// A quarter of an example's entries in one warp; lane l of the first eight ends with the sum of squares number l.
__device__ __forceinline__ void partial_squares(Memory& m, const float* first_sums, float* partial) {
  const int lane = threadIdx.x & 31;
  for (int task = threadIdx.x >> 5; task < 4 * BATCH; task += WARPS) {
    const int b = task / 4, begin = task % 4 * 32 + lane;
    float squares[8] = {};
    for (int i = begin; i < 10; i += 128) squares[0] += square(m.delta3[i * BATCH + b]);
    for (int i = begin; i < 84; i += 128) squares[1] += square(m.hidden2[i * BATCH + b]);
    for (int i = begin; i < 84; i += 128) squares[2] += square(m.delta2[i * BATCH + b]);
    for (int i = begin; i < 120; i += 128) squares[3] += square(m.hidden1[i * BATCH + b]);
    for (int i = begin; i < 120; i += 128) squares[4] += square(m.delta1[i * BATCH + b]);
    for (int i = begin; i < 400; i += 128) squares[5] += square(m.flat[i * BATCH + b]);
    for (int i = begin; i < 2400; i += 128) squares[6] += square(m.scratch[b * 2400 + i]);
    for (int i = begin; i < 16; i += 128) squares[6] += square(m.biases2[b * 16 + i]);
    for (int i = begin; i < 192; i += 128) squares[7] += i % 32 < 26 ? square(first_sums[b * 192 + i]) : 0.0f;
    const float total = warp_sums<8>(squares);
    if (lane < 8) partial[task * 8 + lane] = total;
  }
}

// What an example's gradient is multiplied by; nothing is left of one whose length is not finite.
__device__ __forceinline__ float clip_factor(const float* partial) {
  float squares[8];
#pragma unroll
  for (int k = 0; k < 8; k++) squares[k] = (partial[k] + partial[8 + k]) + (partial[16 + k] + partial[24 + k]);
  const float norm = sqrtf(squares[0] * (1.0f + squares[1]) + squares[2] * (1.0f + squares[3]) +
                           squares[4] * (1.0f + squares[5]) + squares[6] + squares[7]);
  return norm <= 3.0e38f ? CLIP_TARGET / fmaxf(norm, CLIP_TARGET) : 0.0f;
}

__device__ __forceinline__ void scale_deltas(Memory& m) {
  for (int i = threadIdx.x; i < 120 * BATCH; i += THREADS) {
    const float factor = m.factors[i % BATCH];
    m.delta1[i] *= factor;
    if (i < 84 * BATCH) m.delta2[i] *= factor;
    if (i < 10 * BATCH) m.delta3[i] *= factor;
  }
}

__device__ __forceinline__ void step(
    Memory& m, const Run& run, float* theta, const float* images, const int* labels, const int* batch) {
  // Places that nobody else needs by then: scratch before the second kernel's sums, the second convolution and the
  // halved derivatives after them.
  float *flat_delta = m.scratch, *first_sums = m.second, *partial = m.halved_delta;
  load_images(m, images, labels, batch);
  __syncthreads();
  first_convolution(m);
  __syncthreads();
  second_convolution(m);
  __syncthreads();
  dense_forward<400, 120, 16>(m, theta + D1, m.flat, m.hidden1);
  dense_forward<120, 84, 24>(m, theta + D2, m.hidden1, m.hidden2);
  last_layer(m);
  dense_signals<120, 84, true>(theta + D2, m.hidden1, m.delta2, m.delta1);
  __syncthreads();
  dense_signals<400, 120, false>(theta + D1, m.flat, m.delta1, flat_delta);
  __syncthreads();
  second_delta(m, flat_delta);
  __syncthreads();
  second_kernel_sums(m, m.biases2);
  halved_delta(m);
  __syncthreads();
  first_kernel_sums(m, first_sums);
  __syncthreads();
  partial_squares(m, first_sums, partial);
  __syncthreads();
  if (threadIdx.x < BATCH) m.factors[threadIdx.x] = clip_factor(partial + 32 * threadIdx.x);
  __syncthreads();
  scale_deltas(m);
  __syncthreads();
  update_last_layer(m, run);
  dense_moves<120, 84>(theta + D2, D2, m.hidden1, m.delta2, run);
  dense_moves<400, 120>(theta + D1, D1, m.flat, m.delta1, run);
  update_second_kernel(m, run, m.biases2, m.factors);
  update_first_kernel(m, run, first_sums, m.factors);
  // No barrier, as in the step without clipping.
}
