// The convolutions backwards, and the moves of their kernels.
#pragma once

#include "memory.cuh"
#include "noise.cuh"
#include "sums.cuh"

__device__ __forceinline__ void second_delta(Memory& m, const float* flat_delta) {
  for (int i = threadIdx.x; i < BATCH * 1600; i += THREADS) {
    const int b = i / 1600, c = i % 1600 / 100, y = i % 100 / 10, x = i % 10;
    float& value = m.second[b * SECOND + i % 1600];
    value = 0.25f * flat_delta[((y / 2 * 5 + x / 2) * 16 + c) * BATCH + b] * slope(value);
  }
}

// A warp has one example and four channels out; a lane one channel in and one row of the kernel. Lane 30 has the bias.
__device__ __forceinline__ void second_kernel_sums(Memory& m, float* biases) {
  const int lane = threadIdx.x & 31, in = lane < 30 ? lane / 5 : 5, row = lane % 5;
  for (int task = threadIdx.x >> 5; task < 16; task += WARPS) {
    const int b = task / 4, group = task % 4;
    float total[5][4] = {};
#pragma unroll 1
    for (int y = 0; y < 10; y++) {
      const float* source = &m.halved[b * 1176 + in * 196 + (y + row) * 14];
      float pixels[14];
#pragma unroll
      for (int x = 0; x < 14; x += 2) {
        float2 both = at2(source + x);
        pixels[x] = lane < 30 ? both.x : 1.0f;
        pixels[x + 1] = lane < 30 ? both.y : 1.0f;
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const float* delta = &m.second[b * SECOND + (4 * group + j) * 100 + y * 10];
#pragma unroll
        for (int x = 0; x < 10; x += 2) {
          float2 both = at2(delta + x);
#pragma unroll
          for (int k = 0; k < 5; k++) total[k][j] += both.x * pixels[x + k] + both.y * pixels[x + 1 + k];
        }
      }
    }
    float4 sums[5];
#pragma unroll
    for (int k = 0; k < 5; k++) {
      sums[k].x = total[k][0];
      sums[k].y = total[k][1];
      sums[k].z = total[k][2];
      sums[k].w = total[k][3];
      if (lane < 30) *(float4*)&m.scratch[b * 2400 + ((row * 5 + k) * 6 + in) * 16 + 4 * group] = sums[k];
    }
    if (lane == 30) *(float4*)&biases[b * 16 + 4 * group] = sums[0];
  }
}

// A warp has one row of the halved images; a lane one example and channel.
__device__ __forceinline__ void halved_delta(Memory& m) {
  const int lane = threadIdx.x & 31, b = lane / 6, in = lane % 6;
  for (int y = threadIdx.x >> 5; y < 14; y += WARPS) {
    if (lane >= 24) continue;
    float total[14] = {};
#pragma unroll 1
    for (int row = 0; row < 5; row++) {
      if (y - row < 0 || y - row >= 10) continue;
      const float* delta = &m.second[b * SECOND + (y - row) * 10];
      const float* weight = &m.turned2[in * TURNED + row * 5];
#pragma unroll 4
      for (int c = 0; c < 16; c++, delta += 100, weight += 25) {
        float w[5];
#pragma unroll
        for (int k = 0; k < 5; k++) w[k] = weight[k];
#pragma unroll
        for (int x = 0; x < 10; x += 2) {
          float2 both = at2(delta + x);
#pragma unroll
          for (int k = 0; k < 5; k++) {
            total[x + k] += both.x * w[k];
            total[x + 1 + k] += both.y * w[k];
          }
        }
      }
    }
#pragma unroll
    for (int x = 0; x < 14; x += 2) {
      float2 both = {0.25f * total[x], 0.25f * total[x + 1]};
      *(float2*)&m.halved_delta[b * 1176 + in * 196 + y * 14 + x] = both;
    }
  }
}

// A warp has one example and channel; a lane one row of the image.
__device__ __forceinline__ void first_kernel_sums(Memory& m, float* sums) {
  const int lane = threadIdx.x & 31, y = lane < 28 ? lane : 27;
  for (int task = threadIdx.x >> 5; task < 24; task += WARPS) {
    const int b = task / 6, c = task % 6;
    float delta[28], total[32] = {};
    const float* values = &m.first[b * 4704 + c * 784 + y * 28];
    const float* above = &m.halved_delta[b * 1176 + c * 196 + y / 2 * 14];
#pragma unroll
    for (int x = 0; x < 28; x += 4) {
      float4 value = at4(values + x);
      float2 both = at2(above + x / 2);
      if (lane >= 28) both.x = both.y = 0.0f;
      delta[x] = both.x * slope(value.x);
      delta[x + 1] = both.x * slope(value.y);
      delta[x + 2] = both.y * slope(value.z);
      delta[x + 3] = both.y * slope(value.w);
      total[25] += (delta[x] + delta[x + 1]) + (delta[x + 2] + delta[x + 3]);
    }
#pragma unroll
    for (int row = 0; row < 5; row++) {
      const float* source = &m.image[b * IMAGE + (y + row) * ROW];
#pragma unroll
      for (int x = 0; x < 32; x += 4) {
        float4 pixels = at4(source + x);
#pragma unroll
        for (int k = 0; k < 5; k++) {
          if (x - k >= 0 && x - k < 28) total[row * 5 + k] += pixels.x * delta[x - k];
          if (x + 1 - k >= 0 && x + 1 - k < 28) total[row * 5 + k] += pixels.y * delta[x + 1 - k];
          if (x + 2 - k >= 0 && x + 2 - k < 28) total[row * 5 + k] += pixels.z * delta[x + 2 - k];
          if (x + 3 - k >= 0 && x + 3 - k < 28) total[row * 5 + k] += pixels.w * delta[x + 3 - k];
        }
      }
    }
    float sum = warp_sums<32>(total);
    if (lane < 26) sums[task * 32 + lane] = sum;
  }
}

__device__ __forceinline__ void store_turned(Memory& m, int place, float value) {
  const int out = place % 16, in = place / 16 % 6, k = place / 96;
  m.turned2[in * TURNED + out * 25 + k] = value;
}

// An example's share of a sum; without factors, all of it.
__device__ __forceinline__ float share(const float* factors, int b, float value) {
  return factors ? factors[b] * value : value;
}

__device__ __forceinline__ void update_second_kernel(
    Memory& m, const Run& run, const float* biases, const float* factors) {
  for (int i = threadIdx.x; i < 1208; i += THREADS) {
    const float* sums = i < 1200 ? &m.scratch[2 * i] : &biases[2 * i - 2400];
    const int apart = i < 1200 ? 2400 : 16;
    float2 gradient = at2(sums);
    gradient.x = share(factors, 0, gradient.x);
    gradient.y = share(factors, 0, gradient.y);
#pragma unroll
    for (int b = 1; b < BATCH; b++) {
      float2 more = at2(sums + b * apart);
      gradient.x += share(factors, b, more.x);
      gradient.y += share(factors, b, more.y);
    }
    float2 value = moved_pair(run, at2(&m.kernel2[2 * i]), gradient, K2 + 2 * i);
    *(float2*)&m.kernel2[2 * i] = value;
    if (i < 1200) {
      store_turned(m, 2 * i, value.x);
      store_turned(m, 2 * i + 1, value.y);
    }
  }
}

__device__ __forceinline__ float first_kernel_gradient(const float* sums, const float* factors, int place) {
  const int from = place < 150 ? place % 6 * 32 + place / 6 : (place - 150) * 32 + 25;
  return (share(factors, 0, sums[from]) + share(factors, 1, sums[from + 192])) +
         (share(factors, 2, sums[from + 384]) + share(factors, 3, sums[from + 576]));
}

__device__ __forceinline__ void update_first_kernel(
    Memory& m, const Run& run, const float* sums, const float* factors) {
  for (int i = threadIdx.x; i < 78; i += THREADS) {
    float2 gradient = {
        first_kernel_gradient(sums, factors, 2 * i), first_kernel_gradient(sums, factors, 2 * i + 1)};
    *(float2*)&m.kernel1[2 * i] = moved_pair(run, at2(&m.kernel1[2 * i]), gradient, K1 + 2 * i);
  }
}
