/**
 * Balances experts over ranks: how many replicas each expert has, and on which rank each lies. Pure
 * computation; callers use {@link org.ep4j.routing.ExpertPlacement#balance(long[], int, int)}.
 */
@NullMarked
package org.ep4j.balance;

import org.jspecify.annotations.NullMarked;
