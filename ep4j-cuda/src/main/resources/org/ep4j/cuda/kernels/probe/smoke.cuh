// Parameters of the kernel smoke.

#pragma once

struct SmokeParameters {
  float* out;
  int count;
  float scale;
};
