/** Tokens whose results must have the same bits in any world, and such worlds. */
@NullMarked
package org.ep4j.conformance.samebits;

import org.jspecify.annotations.NullMarked;
