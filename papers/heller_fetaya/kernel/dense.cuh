// The dense layers forwards and backwards; each weight moves as soon as its derivatives are known.
#pragma once

#include "memory.cuh"
#include "noise.cuh"
#include "sums.cuh"

// Partial sums over groups of rows, then their sum; `out` gets the activations.
template <int IN, int OUT, int GROUPS>
__device__ __forceinline__ void dense_forward(Memory& m, const float* weights, const float* in, float* out) {
  const int columns = OUT / 4, rows = IN / GROUPS;
  for (int i = threadIdx.x; i < columns * GROUPS; i += THREADS) {
    const int group = i / columns, column = 4 * (i % columns);
    float4 total[4] = {};
#pragma unroll 5
    for (int r = 0; r < rows; r++) {
      const int row = r * GROUPS + group;
      float4 weight = at4(weights + row * OUT + column), x = at4(in + row * BATCH);
      add(total[0], x, weight.x);
      add(total[1], x, weight.y);
      add(total[2], x, weight.z);
      add(total[3], x, weight.w);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) *(float4*)&m.scratch[(group * OUT + column + j) * BATCH] = total[j];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < OUT * BATCH; i += THREADS) {
    float total = weights[IN * OUT + i / BATCH];  // the biases follow the weights
#pragma unroll
    for (int group = 0; group < GROUPS; group++) total += m.scratch[group * OUT * BATCH + i];
    out[i] = squash(total);
  }
  __syncthreads();
}

__device__ __forceinline__ void last_layer(Memory& m) {
  for (int i = threadIdx.x; i < 480; i += THREADS) {
    const int part = i / 40, j = i % 40 / 4, b = i % 4;
    float total = 0.0f;
#pragma unroll
    for (int r = 0; r < 7; r++) total += m.hidden2[(part * 7 + r) * BATCH + b] * m.dense3[(part * 7 + r) * 10 + j];
    m.scratch[i] = total;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 40; i += THREADS) {
    float total = m.dense3[840 + i / 4];
#pragma unroll
    for (int part = 0; part < 12; part++) total += m.scratch[part * 40 + i];
    m.scores[i] = total;
  }
  __syncthreads();
  if (threadIdx.x < BATCH) {
    const int b = threadIdx.x;
    float largest = m.scores[b], total = 0.0f, grown[10];
#pragma unroll
    for (int j = 1; j < 10; j++) largest = fmaxf(largest, m.scores[j * 4 + b]);
#pragma unroll
    for (int j = 0; j < 10; j++) total += grown[j] = __expf(m.scores[j * 4 + b] - largest);
#pragma unroll
    for (int j = 0; j < 10; j++) m.delta3[j * 4 + b] = grown[j] / total - (m.labels[b] == j ? 1.0f : 0.0f);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 84 * BATCH; i += THREADS) {
    float total = 0.0f, value = m.hidden2[i];
#pragma unroll
    for (int j = 0; j < 10; j++) total += m.dense3[i / 4 * 10 + j] * m.delta3[j * 4 + i % 4];
    m.delta2[i] = total * slope(value);
  }
  __syncthreads();
}

__device__ __forceinline__ void update_last_layer(Memory& m, const Run& run) {
  for (int i = threadIdx.x; i < 425; i += THREADS) {
    const int row = i / 5, column = 2 * (i % 5);
    float4 in = {1.0f, 1.0f, 1.0f, 1.0f};
    if (row < 84) in = at4(&m.hidden2[row * BATCH]);
    float2 gradient, value = at2(&m.dense3[2 * i]);
    gradient.x = dot(in, at4(&m.delta3[column * 4]));
    gradient.y = dot(in, at4(&m.delta3[column * 4 + 4]));
    *(float2*)&m.dense3[2 * i] = moved_pair(run, value, gradient, D3 + 2 * i);
  }
}

// A warp has a row of weights: its derivative of the row's input, then its move. Inputs turn into their derivatives.
template <int IN, int OUT, bool SLOPE>
__device__ __forceinline__ void dense_backward(
    float* weights, word place, const float* in, const float* delta, float* out, const Run& run) {
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
    float4 weight = next, x = at4(in + row * BATCH);
    if (row + WARPS < IN) next = at4(weights + (row + WARPS) * OUT + column);
    float sums[4];
    sums[0] = weight.x * deltas[0].x + weight.y * deltas[1].x + weight.z * deltas[2].x + weight.w * deltas[3].x;
    sums[1] = weight.x * deltas[0].y + weight.y * deltas[1].y + weight.z * deltas[2].y + weight.w * deltas[3].y;
    sums[2] = weight.x * deltas[0].z + weight.y * deltas[1].z + weight.z * deltas[2].z + weight.w * deltas[3].z;
    sums[3] = weight.x * deltas[0].w + weight.y * deltas[1].w + weight.z * deltas[2].w + weight.w * deltas[3].w;
    float total = warp_sums<4>(sums);
    if (lane < BATCH) {
      const float value = lane == 0 ? x.x : lane == 1 ? x.y : lane == 2 ? x.z : x.w;
      out[row * BATCH + lane] = SLOPE ? total * slope(value) : total;
    }
    if (active) {
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
