/** Completion, deadline records, failure diagnosis, and fencing of stale ranks. */
@NullMarked
package org.ep4j.cuda.engine.failure;

import org.jspecify.annotations.NullMarked;
