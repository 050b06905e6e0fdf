/** Wires between ranks that map each other's memory: a put is a copy. */
@NullMarked
package org.ep4j.wire.direct;

import org.jspecify.annotations.NullMarked;
