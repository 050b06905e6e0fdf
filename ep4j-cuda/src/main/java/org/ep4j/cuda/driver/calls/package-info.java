/** Bindings of the CUDA driver: functions, structures, constants, errors. */
@NullMarked
package org.ep4j.cuda.driver.calls;

import org.jspecify.annotations.NullMarked;
