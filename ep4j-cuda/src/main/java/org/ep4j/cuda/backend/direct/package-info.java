/**
 * The backend that needs no library except the driver: addresses within a process, IPC between processes.
 */
@NullMarked
package org.ep4j.cuda.backend.direct;

import org.jspecify.annotations.NullMarked;
