-- Rides and fares for each day and city. Stations report late, so every run replaces the last seven days.
CREATE STREAMING TABLE daily_rides
COMMENT 'Rides and fares for each day and city'
PARTITIONED BY (ride_date)
FLOW REPLACE WHERE ride_date >= date_sub(current_date(), 7) BY NAME
SELECT r.ride_date,
       s.city,
       count(*) AS rides,
       sum(r.fare) AS fares
FROM rides AS r
JOIN stations AS s ON s.station_id = r.station_id
GROUP BY ALL;
