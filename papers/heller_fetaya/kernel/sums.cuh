// Activations, vectors of four, and sums over a warp.
#pragma once

// The activation, and its slope from its value.
#ifdef RECTIFIED
__device__ __forceinline__ float squash(float x) { return fmaxf(x, 0.0f); }
__device__ __forceinline__ float slope(float value) { return value > 0.0f ? 1.0f : 0.0f; }
#else
__device__ __forceinline__ float squash(float x) { return 1.0f - __fdividef(2.0f, __expf(2.0f * x) + 1.0f); }
__device__ __forceinline__ float slope(float value) { return 1.0f - value * value; }
#endif

__device__ __forceinline__ float4 at4(const float* from) { return *(const float4*)from; }
__device__ __forceinline__ float2 at2(const float* from) { return *(const float2*)from; }

__device__ __forceinline__ void add(float4& total, float4 weight, float x) {
  total.x += weight.x * x;
  total.y += weight.y * x;
  total.z += weight.z * x;
  total.w += weight.w * x;
}

__device__ __forceinline__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

// The sums over a warp of 2^k values for each lane; lane l ends with the sum of value l mod 2^k. Recursion, because
// the compiler must know every index to keep the values in registers.
template <int HALF>
struct Fold {
  static __device__ __forceinline__ void in(float* values) {
    const bool upper = threadIdx.x & HALF;
#pragma unroll
    for (int k = 0; k < HALF; k++) {
      float sent = upper ? values[k] : values[k + HALF], kept = upper ? values[k + HALF] : values[k];
      values[k] = kept + __shfl_xor_sync(FULL, sent, HALF);
    }
    Fold<HALF / 2>::in(values);
  }
};

template <>
struct Fold<0> {
  static __device__ __forceinline__ void in(float*) {}
};

template <int COUNT>
__device__ __forceinline__ float warp_sums(float* values) {
  Fold<COUNT / 2>::in(values);
  float total = values[0];
#pragma unroll
  for (int apart = COUNT; apart < 32; apart *= 2) total += __shfl_xor_sync(FULL, total, apart);
  return total;
}
