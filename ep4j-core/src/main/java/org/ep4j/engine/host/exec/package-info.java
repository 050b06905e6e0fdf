/** Worker threads, work queues, and the queue of operations. */
@NullMarked
package org.ep4j.engine.host.exec;

import org.jspecify.annotations.NullMarked;
