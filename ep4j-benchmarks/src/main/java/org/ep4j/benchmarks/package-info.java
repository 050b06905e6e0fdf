/** JMH benchmarks of the kernels and of whole operations. */
@NullMarked
package org.ep4j.benchmarks;

import org.jspecify.annotations.NullMarked;
