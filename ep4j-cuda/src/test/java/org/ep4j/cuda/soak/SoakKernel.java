package org.ep4j.cuda.soak;

import java.util.Locale;

/** The kernels of {@code soak.cu}. */
enum SoakKernel {
  MAKE,
  ROUTES,
  COUNT,
  ROW_TABLE,
  CHECK_ROWS,
  CHECK_INDEX,
  CHECK_LATENCY_INDEX,
  ANSWER,
  CHECK_SUMS,
  FLIP;

  /** Name in the module. */
  String entry() {
    return "ep4j_soak_" + name().toLowerCase(Locale.ROOT);
  }
}
