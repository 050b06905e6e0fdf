/** The high-throughput operations of the CUDA engine. */
@NullMarked
package org.ep4j.cuda.engine.throughput;

import org.jspecify.annotations.NullMarked;
