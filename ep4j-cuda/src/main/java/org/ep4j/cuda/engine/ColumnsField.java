package org.ep4j.cuda.engine;

/**
 * Parameters of the kernel that turns scales around in the order of {@code ColumnsParameters} in
 * {@code columns.cu}: 8 bytes each.
 */
enum ColumnsField {
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
