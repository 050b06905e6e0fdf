/** Measures operations, wires and links. */
@NullMarked
package org.ep4j.cli.bench;

import org.jspecify.annotations.NullMarked;
