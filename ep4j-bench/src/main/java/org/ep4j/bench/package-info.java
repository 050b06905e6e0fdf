/** Harnesses of the benchmarks: ceilings of memory and devices, traffic, timings. */
@NullMarked
package org.ep4j.bench;

import org.jspecify.annotations.NullMarked;
