package org.ep4j.cuda.engine.launch;

/**
 * Parameters of the kernel that transposes scales, 8 bytes each, in the order of {@code
 * TransposeParameters} in {@code transpose_scales.cu}.
 */
public enum TransposeField {
  CONTROL,
  FROM,
  TO,
  COLUMNS,
  ELEMENT_BYTES,
  ROWS,
  LIMIT,
  FIXED,
  TICKET,
  COMPLETED
}
