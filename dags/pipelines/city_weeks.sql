-- Totals for each week and city, made from daily_rides. The first week that a late ride can reach is replaced whole.
CREATE STREAMING TABLE city_weeks
COMMENT 'Rides and fares for each week and city'
FLOW REPLACE WHERE week >= date_trunc('week', date_sub(current_date(), 7)) BY NAME
SELECT CAST(date_trunc('week', ride_date) AS DATE) AS week,
       city,
       sum(rides) AS rides,
       sum(fares) AS fares
FROM daily_rides
GROUP BY ALL;
