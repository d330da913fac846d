// Where everything is: a model's flat vector, and the shared memory of the block that trains it.
//
// Layouts: images (b, 32 rows of 36), first convolution (b, 6, 28, 28), halved (b, 6, 14, 14), second convolution
// (b, 16, 10, 10) with a little room between examples, dense layers (unit, b). Odd strides keep banks apart.
#pragma once

#ifndef THREADS
#define THREADS 512
#endif
#define WARPS (THREADS / 32)
#define BATCH 4
#define FULL 0xffffffffu

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
#ifdef CLIP_TARGET
  float biases2[16 * BATCH];  // sums for the second kernel's biases, by example
  float factors[BATCH];       // what each example's gradient is multiplied by
#endif
};
