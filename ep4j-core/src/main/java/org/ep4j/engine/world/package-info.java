/**
 * The ranks of a buffer as all engines see them: which are alive, on which nodes and rails, how
 * they agree on settings and on a new beginning, and what an aborted rank tells.
 */
@NullMarked
package org.ep4j.engine.world;

import org.jspecify.annotations.NullMarked;
