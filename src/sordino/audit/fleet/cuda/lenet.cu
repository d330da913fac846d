// Many steps of noisy gradient descent on LeNet-5 (tanh, batches of four): one block of threads trains one model.
//
//   theta <- theta - eta (sum of gradients / 4 + decay theta) + tau xi
//
// Kernels of the convolutions, the last layer and everything a step computes stay in shared memory; the two wide layers
// are read from the second-level cache, where the models in flight fit. All arithmetic is single precision, and sums
// have a fixed order, so what a model becomes does not depend on its neighbours or on the device. Noise is Threefry-2x32
// and Box-Muller as in draws.py: the same words, so that both ways of training differ by rounding only.
//
// The numbers of the phases are those of `step` at the end. Layouts: images (b, 32 rows of 36), first convolution
// (b, 6, 28, 28), halved (b, 6, 14, 14), second convolution (b, 16, 10, 10), dense layers (unit, b).

#ifndef THREADS
#define THREADS 512
#endif
#define WARPS (THREADS / 32)
#define BATCH 4
#define FULL 0xffffffffu

typedef unsigned int word;

// Places in a model's flat vector, which is padded to STRIDE so that every model starts on sixteen bytes.
#define STRIDE 61712
#define K1 0
#define K2 156
#define BIAS2 2556
#define D1 2572
#define D2 50692
#define D3 60856
#define DIM 61706

#define ROW 36
#define IMAGE (32 * ROW)
#define SECOND 1608
#define TURNED 404

struct Memory {
  float image[BATCH * IMAGE];
  float first[BATCH * 4704];
  float halved[BATCH * 1176];
  float second[BATCH * SECOND];
  float kernel2[2400 + 16];
  float turned2[6 * TURNED];  // the second kernel as (in, out, place), for the backward pass
  float flat[400 * BATCH];    // input of the dense layers; then its derivative; then sums for the first kernel
  float hidden1[120 * BATCH], delta1[120 * BATCH];
  float hidden2[84 * BATCH], delta2[84 * BATCH];
  float scores[10 * BATCH], delta3[10 * BATCH];
  float dense3[852];
  float scratch[9600];
  float halved_delta[BATCH * 1176];
  float kernel1[156];
  int labels[BATCH];
};

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

__device__ __forceinline__ float squash(float x) { return 1.0f - __fdividef(2.0f, __expf(2.0f * x) + 1.0f); }

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
    m.delta2[i] = total * (1.0f - value * value);
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
      out[row * BATCH + lane] = SLOPE ? total * (1.0f - value * value) : total;
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

__device__ __forceinline__ void second_delta(Memory& m) {
  for (int i = threadIdx.x; i < BATCH * 1600; i += THREADS) {
    const int b = i / 1600, c = i % 1600 / 100, y = i % 100 / 10, x = i % 10;
    float& value = m.second[b * SECOND + i % 1600];
    value = 0.25f * m.flat[((y / 2 * 5 + x / 2) * 16 + c) * BATCH + b] * (1.0f - value * value);
  }
}

// A warp has one example and four channels out; a lane one channel in and one row of the kernel. Lane 30 has the bias.
__device__ __forceinline__ void second_kernel_sums(Memory& m) {
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
    if (lane == 30) *(float4*)&m.hidden2[b * 16 + 4 * group] = sums[0];
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
__device__ __forceinline__ void first_kernel_sums(Memory& m) {
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
      delta[x] = both.x * (1.0f - value.x * value.x);
      delta[x + 1] = both.x * (1.0f - value.y * value.y);
      delta[x + 2] = both.y * (1.0f - value.z * value.z);
      delta[x + 3] = both.y * (1.0f - value.w * value.w);
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
    if (lane < 26) m.flat[task * 32 + lane] = sum;
  }
}

__device__ __forceinline__ void store_turned(Memory& m, int place, float value) {
  const int out = place % 16, in = place / 16 % 6, k = place / 96;
  m.turned2[in * TURNED + out * 25 + k] = value;
}

__device__ __forceinline__ void update_second_kernel(Memory& m, const Run& run) {
  for (int i = threadIdx.x; i < 1208; i += THREADS) {
    const float* sums = i < 1200 ? &m.scratch[2 * i] : &m.hidden2[2 * i - 2400];
    const int apart = i < 1200 ? 2400 : 16;
    float2 gradient = at2(sums);
#pragma unroll
    for (int b = 1; b < BATCH; b++) {
      float2 more = at2(sums + b * apart);
      gradient.x += more.x;
      gradient.y += more.y;
    }
    float2 value = moved_pair(run, at2(&m.kernel2[2 * i]), gradient, K2 + 2 * i);
    *(float2*)&m.kernel2[2 * i] = value;
    if (i < 1200) {
      store_turned(m, 2 * i, value.x);
      store_turned(m, 2 * i + 1, value.y);
    }
  }
}

__device__ __forceinline__ float first_kernel_gradient(Memory& m, int place) {
  const int from = place < 150 ? place % 6 * 32 + place / 6 : (place - 150) * 32 + 25;
  return (m.flat[from] + m.flat[from + 192]) + (m.flat[from + 384] + m.flat[from + 576]);
}

__device__ __forceinline__ void update_first_kernel(Memory& m, const Run& run) {
  for (int i = threadIdx.x; i < 78; i += THREADS) {
    float2 gradient = {first_kernel_gradient(m, 2 * i), first_kernel_gradient(m, 2 * i + 1)};
    *(float2*)&m.kernel1[2 * i] = moved_pair(run, at2(&m.kernel1[2 * i]), gradient, K1 + 2 * i);
  }
}

__device__ __forceinline__ void step(
    Memory& m, const Run& run, float* theta, const float* images, const int* labels, const int* batch) {
  load_images(m, images, labels, batch);
  __syncthreads();
  first_convolution(m);
  __syncthreads();
  second_convolution(m);
  __syncthreads();
  dense_forward<400, 120, 16>(m, theta + D1, m.flat, m.hidden1);
  dense_forward<120, 84, 24>(m, theta + D2, m.hidden1, m.hidden2);
  last_layer(m);
  update_last_layer(m, run);
  dense_backward<120, 84, true>(theta + D2, D2, m.hidden1, m.delta2, m.delta1, run);
  __syncthreads();
  dense_backward<400, 120, false>(theta + D1, D1, m.flat, m.delta1, m.flat, run);
  __syncthreads();
  second_delta(m);
  __syncthreads();
  second_kernel_sums(m);
  halved_delta(m);
  __syncthreads();
  update_second_kernel(m, run);
  first_kernel_sums(m);
  __syncthreads();
  update_first_kernel(m, run);
  // No barrier: the next step's images and labels are read by nobody before its first barrier, and what it writes
  // before that is read by nobody here.
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) lenet_steps(
    float* thetas, const float* images, const int* labels, const int* orders, const word* keys, word first_step,
    int steps, float rate, float shrink, float tau) {
  extern __shared__ float4 shared[];
  Memory& m = *(Memory*)shared;
  const long long model = blockIdx.x;
  float* theta = thetas + model * STRIDE;
  const int* order = orders + model * steps * BATCH;
  Run run = {rate, shrink, tau, keys[2 * model], keys[2 * model + 1], first_step};
  for (int i = threadIdx.x; i < BATCH * IMAGE; i += THREADS) m.image[i] = 0.0f;
  for (int i = threadIdx.x; i < 156; i += THREADS) m.kernel1[i] = theta[K1 + i];
  for (int i = threadIdx.x; i < 2416; i += THREADS) {
    m.kernel2[i] = theta[K2 + i];
    if (i < 2400) store_turned(m, i, theta[K2 + i]);
  }
  for (int i = threadIdx.x; i < 850; i += THREADS) m.dense3[i] = theta[D3 + i];
  __syncthreads();
  for (int k = 0; k < steps; k++, run.step++) step(m, run, theta, images, labels, order + k * BATCH);
  __syncthreads();
  for (int i = threadIdx.x; i < 156; i += THREADS) theta[K1 + i] = m.kernel1[i];
  for (int i = threadIdx.x; i < 2416; i += THREADS) theta[K2 + i] = m.kernel2[i];
  for (int i = threadIdx.x; i < 850; i += THREADS) theta[D3 + i] = m.dense3[i];
}
