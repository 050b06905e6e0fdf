/** The wires measured alone, and the programs that they are compared with. */
@NullMarked
package org.ep4j.bench.wire;

import org.jspecify.annotations.NullMarked;
