/**
 * The backend that needs no library except the driver: addresses within a process, IPC between
 * processes, fabric handles between hosts of an NVLink domain.
 */
@NullMarked
package org.ep4j.cuda.backend.direct;

import org.jspecify.annotations.NullMarked;
