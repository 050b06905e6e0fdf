/** Kernel files, kernel calls, and the fields of kernel parameters. */
@NullMarked
package org.ep4j.cuda.engine.launch;

import org.jspecify.annotations.NullMarked;
