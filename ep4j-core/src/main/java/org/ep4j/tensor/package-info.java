/**
 * Tensors in memory of the host or of a GPU, their data types and scales, and conversions of
 * values.
 */
@NullMarked
package org.ep4j.tensor;

import org.jspecify.annotations.NullMarked;
