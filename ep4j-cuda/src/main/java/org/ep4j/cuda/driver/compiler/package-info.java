/** Bindings of NVRTC and nvJitLink, and the search for them. */
@NullMarked
package org.ep4j.cuda.driver.compiler;

import org.jspecify.annotations.NullMarked;
