package org.ep4j.cuda.engine;

/**
 * Parameters of the kernel that turns scales around in the order of {@code TransposeParameters} in
 * {@code transpose_scales.cu}: 8 bytes each.
 */
enum TransposeField {
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
