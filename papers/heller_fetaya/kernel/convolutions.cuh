// Images in, and the two convolutions forwards.
#pragma once

#include "memory.cuh"
#include "sums.cuh"

__device__ __forceinline__ void load_images(Memory& m, const float* images, const int* labels, const int* batch) {
  for (int i = threadIdx.x; i < BATCH * 392; i += THREADS) {
    const int b = i / 392, pixel = 2 * (i % 392);
    float2 both = at2(images + (long long)batch[b] * 784 + pixel);
    *(float2*)&m.image[b * IMAGE + (pixel / 28 + 2) * ROW + pixel % 28 + 2] = both;
  }
  if (threadIdx.x < BATCH) m.labels[threadIdx.x] = labels[batch[threadIdx.x]];
}

// Two by two places for all six channels, and their mean.
__device__ __forceinline__ void first_convolution(Memory& m) {
  for (int i = threadIdx.x; i < BATCH * 196; i += THREADS) {
    const int b = i / 196, y = i % 196 / 14, x = i % 14;
    const float* image = &m.image[b * IMAGE + 2 * y * ROW + 2 * x];
    float patch[6][6];
#pragma unroll
    for (int r = 0; r < 6; r++)
#pragma unroll
      for (int c = 0; c < 6; c += 2) {
        float2 both = at2(image + r * ROW + c);
        patch[r][c] = both.x;
        patch[r][c + 1] = both.y;
      }
    float total[6][4];
#pragma unroll
    for (int c = 0; c < 6; c++)
#pragma unroll
      for (int p = 0; p < 4; p++) total[c][p] = m.kernel1[150 + c];
#pragma unroll
    for (int k = 0; k < 25; k++)
#pragma unroll
      for (int c = 0; c < 6; c += 2) {
        float2 weight = at2(&m.kernel1[k * 6 + c]);
#pragma unroll
        for (int p = 0; p < 4; p++) {
          const float pixel = patch[k / 5 + p / 2][k % 5 + p % 2];
          total[c][p] += weight.x * pixel;
          total[c + 1][p] += weight.y * pixel;
        }
      }
#pragma unroll
    for (int c = 0; c < 6; c++) {
      float* out = &m.first[b * 4704 + c * 784 + 2 * y * 28 + 2 * x];
      float2 upper, lower;
      upper.x = squash(total[c][0]);
      upper.y = squash(total[c][1]);
      lower.x = squash(total[c][2]);
      lower.y = squash(total[c][3]);
      *(float2*)out = upper;
      *(float2*)(out + 28) = lower;
      m.halved[b * 1176 + c * 196 + y * 14 + x] = 0.25f * ((upper.x + upper.y) + (lower.x + lower.y));
    }
  }
}

// A warp has one example and four channels; a lane two by two places.
__device__ __forceinline__ void second_convolution(Memory& m) {
  const int lane = threadIdx.x & 31;
  for (int task = threadIdx.x >> 5; task < 16; task += WARPS) {
    if (lane >= 25) continue;
    const int b = task / 4, group = task % 4, y = lane / 5, x = lane % 5;
    float4 total[4];
#pragma unroll
    for (int p = 0; p < 4; p++) total[p] = at4(&m.kernel2[2400 + 4 * group]);
#pragma unroll 1
    for (int in = 0; in < 6; in++) {
      const float* source = &m.halved[b * 1176 + in * 196 + 2 * y * 14 + 2 * x];
      float patch[6][6];
#pragma unroll
      for (int r = 0; r < 6; r++)
#pragma unroll
        for (int c = 0; c < 6; c += 2) {
          float2 both = at2(source + r * 14 + c);
          patch[r][c] = both.x;
          patch[r][c + 1] = both.y;
        }
#pragma unroll
      for (int k = 0; k < 25; k++) {
        float4 weight = at4(&m.kernel2[(k * 6 + in) * 16 + 4 * group]);
#pragma unroll
        for (int p = 0; p < 4; p++) add(total[p], weight, patch[k / 5 + p / 2][k % 5 + p % 2]);
      }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float value[4], sum = 0.0f;
#pragma unroll
      for (int p = 0; p < 4; p++) {
        value[p] = squash(j == 0 ? total[p].x : j == 1 ? total[p].y : j == 2 ? total[p].z : total[p].w);
        sum += value[p];
        m.second[b * SECOND + (4 * group + j) * 100 + (2 * y + p / 2) * 10 + 2 * x + p % 2] = value[p];
      }
      m.flat[((y * 5 + x) * 16 + 4 * group + j) * BATCH + b] = 0.25f * sum;
    }
  }
}
