// The move of a pair of parameters: drift and Gaussian noise.
#pragma once

typedef unsigned int word;

struct Run {
  float rate, shrink, tau;  // eta / 4, eta * decay, tau
  word key0, key1, step;
};

__device__ __forceinline__ word turn(word x, int by) { return (x << by) | (x >> (32 - by)); }

__device__ __forceinline__ float2 gaussian_pair(const Run& run, word pair) {
  word keys[3] = {run.key0, run.key1, run.key0 ^ run.key1 ^ 0x1BD11BDAu};
  word x = run.step + keys[0], y = pair + keys[1];
#pragma unroll
  for (int group = 0; group < 5; group++) {
    const int odd = group & 1;
    x += y; y = turn(y, odd ? 17 : 13) ^ x;
    x += y; y = turn(y, odd ? 29 : 15) ^ x;
    x += y; y = turn(y, odd ? 16 : 26) ^ x;
    x += y; y = turn(y, odd ? 24 : 6) ^ x;
    x += keys[(group + 1) % 3];
    y += keys[(group + 2) % 3] + (word)(group + 1);
  }
  const float unit = 2.3283064365386963e-10f;
  float radius = sqrtf(-2.0f * logf((float)x * unit + 0.5f * unit));
  float place = (float)(int)(y << 2) * 4.6566128730773926e-10f, square = place * place;
  float cosine = 3.59086044859e-06f, sine = 3.13361689e-07f;
  cosine = cosine * square - 0.000325991886927f;
  sine = sine * square - 3.65762041821e-05f;
  cosine = cosine * square + 0.0158543442438f;
  sine = sine * square + 0.00249039457019f;
  cosine = cosine * square - 0.308425137534f;
  sine = sine * square - 0.080745512188f;
  cosine = cosine * square + 1.0f;
  sine = (sine * square + 0.785398163397f) * place;
  radius = (y >> 31) ? -radius : radius;
  const bool swapped = (y >> 30) & 1u;
  float2 both;
  both.x = radius * (swapped ? -sine : cosine);
  both.y = radius * (swapped ? cosine : sine);
  return both;
}

__device__ __forceinline__ float moved(const Run& run, float value, float gradient, float noise) {
  return value - (run.rate * gradient + run.shrink * value) + run.tau * noise;
}

__device__ __forceinline__ float2 moved_pair(const Run& run, float2 value, float2 gradient, word place) {
  float2 noise = gaussian_pair(run, place >> 1);
  value.x = moved(run, value.x, gradient.x, noise.x);
  value.y = moved(run, value.y, gradient.y, noise.y);
  return value;
}
