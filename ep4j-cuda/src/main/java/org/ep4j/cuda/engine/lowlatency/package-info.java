/** The low-latency operations of the CUDA engine. */
@NullMarked
package org.ep4j.cuda.engine.lowlatency;

import org.jspecify.annotations.NullMarked;
