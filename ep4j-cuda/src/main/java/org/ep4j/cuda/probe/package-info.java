/** Bandwidth of the links between GPUs: the upper bound for operations. */
@NullMarked
package org.ep4j.cuda.probe;

import org.jspecify.annotations.NullMarked;
