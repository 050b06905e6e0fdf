/** The structures and handles of {@code ep4j.h}: their fields read, checked and written. */
@NullMarked
package org.ep4j.c.struct;

import org.jspecify.annotations.NullMarked;
