/**
 * The C interface: {@code ep4j.h} declares it, {@link org.ep4j.c.Abi} returns its table of
 * functions.
 */
@NullMarked
package org.ep4j.c;

import org.jspecify.annotations.NullMarked;
