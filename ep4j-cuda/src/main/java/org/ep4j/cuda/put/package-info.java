/** Puts, signals and flushes from kernels, independent of the backend. */
@NullMarked
package org.ep4j.cuda.put;

import org.jspecify.annotations.NullMarked;
