/**
 * High-throughput operations as every engine shows them: the order of checks, handles and their
 * reuse, and results that stay readable until the next operation of their kind.
 */
@NullMarked
package org.ep4j.engine.throughput;

import org.jspecify.annotations.NullMarked;
